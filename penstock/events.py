"""CloudEvents as objects of the CloudEvents SDK: made of attributes and data, and as headers and body of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.common import get_event_factory_for_version
from cloudevents.core.bindings.http import to_binary
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from knative import timefmt
from knative.cloudevents.attributes import BadEvent
from knative.cloudevents.http_binding import to_record
from knative.errors import UsageError
from knative.ports import Headers

#: Bytes and text are sent as they are; everything else as JSON; None is no data.
Data = Any


def event(data: Data = None, **attributes: Any) -> CloudEvent:
    """A CloudEvent 1.0. `type` and `source` are required; `id`, `time` and `datacontenttype` have defaults.

    >>> from penstock import event
    >>> made = event({"amount": 120}, type="order.created", source="/shop", partitionkey="customer-7")
    >>> made.get_type(), made.get_datacontenttype(), made.get_extension("partitionkey")
    ('order.created', 'application/json', 'customer-7')

    Raises UsageError that names each attribute which is not valid:

    >>> event(source="/shop")
    Traceback (most recent call last):
        ...
    knative.errors.UsageError: This is not a valid CloudEvent: ...
    """
    return make_event(attributes, data)


def make_event(attributes: Mapping[str, Any], data: Data = None) -> CloudEvent:
    """Like `event`, for attributes of any name."""
    given = {name: _text(value) for name, value in attributes.items() if value is not None}
    full = {"specversion": "1.0", "id": str(uuid4()), "time": datetime.now(UTC), **given}
    if data is not None and not isinstance(data, (str, bytes, dict)):
        data = json.dumps(data).encode()
        full.setdefault("datacontenttype", "application/json")
    if data is not None and "datacontenttype" not in full:
        full["datacontenttype"] = content_type_of(data)
    try:
        return CloudEvent(full, data)
    except BaseCloudEventException as problem:
        raise UsageError(
            f"This is not a valid CloudEvent: {' '.join(str(problem).split())}.", "Correct the attributes."
        ) from None


def as_event(given: BaseCloudEvent | Mapping[str, Any] | None, data: Data, attributes: Mapping[str, Any]) -> Any:
    """The event of a call: an object of the SDK, or what `event` makes of a mapping (with `data` in it) or of keyword
    arguments. Raises UsageError."""
    if given is None:
        return event(data, **attributes)
    if attributes or data is not None:
        raise UsageError("An event and attributes cannot be combined.", "Give the event or attributes, but not both.")
    if isinstance(given, Mapping):
        return make_event({name: value for name, value in given.items() if name != "data"}, given.get("data"))
    return given


def content_type_of(data: str | bytes | dict[str, Any]) -> str:
    """application/json, text/plain or application/octet-stream, depending on the data."""
    if isinstance(data, dict):
        return "application/json"
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    try:
        json.loads(text)
    except ValueError:
        return "text/plain"
    return "application/json"


def to_message(made: BaseCloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and body of a request or an answer, in binary mode."""
    message = to_binary(made, JSONFormat())
    return message.headers, message.body


def from_message(pairs: Sequence[tuple[bytes, bytes]], body: bytes) -> BaseCloudEvent:
    """The event of a request, in binary or structured mode, read as Penstock's ingress reads it. Raises BadEvent."""
    headers, _, value = to_record(pairs, body)
    return from_record(headers, value)


def from_record(headers: Headers, value: bytes | None) -> BaseCloudEvent:
    """The event of a record. JSON data is parsed, text is text, and everything else is bytes. Raises BadEvent."""
    attributes: dict[str, Any] = {}
    for name, content in headers:
        if content is not None and (name == "content-type" or name.startswith("ce_")):
            attributes["datacontenttype" if name == "content-type" else name[3:]] = content.decode()
    try:
        if "time" in attributes:
            attributes["time"] = datetime.fromisoformat(timefmt.canonical(attributes["time"]))
        data = JSONFormat().read_data(value, attributes.get("datacontenttype")) if value else None
        return get_event_factory_for_version(attributes["specversion"])(attributes, data)
    except (BaseCloudEventException, ValueError) as problem:
        raise BadEvent("", " ".join(str(problem).split())) from problem


def _text(value: Any) -> Any:
    """Attributes are text in a request: true and false as CloudEvents write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value
