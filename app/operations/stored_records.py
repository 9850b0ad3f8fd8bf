"""A stored record for people and programs: as JSON with unchanged bytes, and attributes apart from headers. Pure."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from tables.kafka.topic_reader import StoredRecord


def as_json(record: StoredRecord) -> dict[str, object]:
    """Returns all of a record; bytes that are not text are in base64 (`data_base64`, `key_base64`)."""
    attributes, others = split_headers(record)
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": time_of(record),
        **bytes_as("key", record.key),
        "attributes": attributes,
        "headers": others,
        **bytes_as("data", record.value),
    }


def split_headers(record: StoredRecord) -> tuple[dict[str, str], dict[str, str]]:
    """Returns (CloudEvents attributes without `ce_`, with the content type as datacontenttype; all other headers)."""
    attributes, others = {}, {}
    for name, value in record.headers:
        text = "" if value is None else value.decode("utf-8", "replace")
        if name.startswith("ce_"):
            attributes[name[3:]] = text
        elif name == "content-type":
            attributes["datacontenttype"] = text
        else:
            others[name] = text
    return attributes, others


def time_of(record: StoredRecord) -> str:
    """Returns when Kafka stored it, RFC 3339 with milliseconds."""
    return datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def bytes_as(name: str, value: bytes | None) -> dict[str, str | None]:
    """Returns `name` with the bytes as text, or `name_base64` if they are not text."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
