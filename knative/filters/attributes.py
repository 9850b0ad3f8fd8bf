"""The attributes of an event as filters see them: lower-case names, and values in canonical text form."""

from __future__ import annotations

from knative import timefmt
from knative.cloudevents.kafka_binding import Unreadable, from_structured
from knative.memo import remember
from knative.ports import Headers

_CONTENT_TYPE = "datacontenttype"
_STRUCTURED = "application/cloudevents"

#: Record header name -> name of the attribute, "" = it is none. The producer of a record chooses the names.
_names: dict[str, str] = {}


def attributes_of(headers: Headers, value: bytes | None) -> dict[str, str] | None:
    """Returns the attributes of a record; None if it is not a CloudEvent (the delivery finds out why).

    `datacontenttype` is the content type; extensions have the names that they have in a header.
    """
    event: dict[str, str] = {}
    try:
        for name, content in headers:
            attribute = _names.get(name)
            if attribute is None:
                attribute = _intern(name)
            if attribute:
                event[attribute] = content.decode()  # type: ignore[union-attr]  # a null is caught below
        media_type = event.get(_CONTENT_TYPE)
        if media_type is not None and media_type.lstrip(" \t")[: len(_STRUCTURED)].lower() == _STRUCTURED:
            return attributes_of(from_structured(headers, value)[0], None)
    except (Unreadable, UnicodeDecodeError, AttributeError, TypeError):
        return None
    if not (event.get("id") and event.get("source") and event.get("type") and event.get("specversion")):
        return None
    if media_type is not None:
        event[_CONTENT_TYPE] = media_type.strip(" \t")
    time = event.get("time")
    if time is not None:
        event["time"] = timefmt.canonical(time)
    return event


def canonical(name: str, text: str) -> str:
    """Returns a value in the form in which filters compare it. Only `time` has several forms of one value."""
    return timefmt.canonical(text) if name == "time" else text


def _intern(name: str) -> str:
    low = name.lower()
    attribute = low[3:] if low[:3] == "ce_" else _CONTENT_TYPE if low == "content-type" else ""
    remember(_names, name, attribute)
    return attribute
