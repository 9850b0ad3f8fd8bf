"""Kafka's request ConsumerGroupDescribe (version 0, KIP-848), which aiokafka does not have.

Only this request describes groups of the protocol `consumer`: the older one reports that they do not exist. Only the
beginning of the answer is read.
"""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
    UnsignedVarInt32,
)

_TEXT = CompactString("utf-8")


class _Answer(Response):  # type: ignore[misc]
    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("group_id", _TEXT),
                ("group_state", _TEXT),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor_name", _TEXT),
                # One more than there are. They would follow, and then other groups: only one is asked for.
                ("members", UnsignedVarInt32),
            ),
        ),
    )


class _Version0(RequestStruct):  # type: ignore[misc]
    API_KEY = _Answer.API_KEY
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("groups", CompactArray(_TEXT)),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class ConsumerGroupDescribeRequest(Request[_Version0]):  # type: ignore[misc]
    """Describes a group of the protocol `consumer`; of its members the answer has the number."""

    API_KEY = _Answer.API_KEY

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: Any) -> Any:
        """aiokafka calls this."""
        return request_struct_class([self._group], False, {})
