"""Kafka's request ConsumerGroupDescribe (version 0, KIP-848), which aiokafka does not have.

Only this request describes groups of the protocol `consumer`: the older one says of them that they do not exist.
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
    Int64,
    Schema,
    TaggedFields,
)

_KEY = 69
_TEXT = CompactString("utf-8")
_ASSIGNMENT = Schema(
    (
        "topic_partitions",
        CompactArray(
            ("topic_id_high", Int64),  # a UUID has 16 bytes
            ("topic_id_low", Int64),
            ("topic_name", _TEXT),
            ("partitions", CompactArray(Int32)),
            ("tags", TaggedFields),
        ),
    ),
    ("tags", TaggedFields),
)
_MEMBERS = CompactArray(
    ("member_id", _TEXT),
    ("instance_id", _TEXT),
    ("rack_id", _TEXT),
    ("member_epoch", Int32),
    ("client_id", _TEXT),
    ("client_host", _TEXT),
    ("subscribed_topic_names", CompactArray(_TEXT)),
    ("subscribed_topic_regex", _TEXT),
    ("assignment", _ASSIGNMENT),
    ("target_assignment", _ASSIGNMENT),
    ("tags", TaggedFields),
)


class _Answer(Response):  # type: ignore[misc]
    API_KEY = _KEY
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
                ("members", _MEMBERS),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Version0(RequestStruct):  # type: ignore[misc]
    API_KEY = _KEY
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("groups", CompactArray(_TEXT)),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class ConsumerGroupDescribeRequest(Request[_Version0]):  # type: ignore[misc]
    """Describes groups of the protocol `consumer`."""

    API_KEY = _KEY

    def __init__(self, groups: list[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: Any) -> Any:
        """Called by aiokafka."""
        return request_struct_class(self._groups, False, {})
