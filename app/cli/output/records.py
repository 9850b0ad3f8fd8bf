"""A stored record as commands show it: as JSON with unchanged bytes, or as lines without terminal control sequences."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from app.cli.output.format import escaped
from knative.errors import SHOWN_CHARS
from tables.kafka.topic_reader import StoredRecord


def as_json(record: StoredRecord) -> dict[str, object]:
    """All of a record; bytes that are not text are in base64 (`data_base64`, `key_base64`)."""
    attributes, others = split_headers(record)
    shown: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": _time(record),
        **bytes_as("key", record.key),
        "attributes": attributes,
        "headers": others,
        **bytes_as("data", record.value),
    }
    return shown


def as_lines(record: StoredRecord) -> list[str]:
    """One line for the event, and one for each plain `penstock-` header and error attribute of a dead letter."""
    attributes, others = split_headers(record)
    who = " ".join(attributes.get(name, "-") for name in ("id", "type", "source"))
    key = "" if record.key is None else f" key={record.key.decode('utf-8', 'replace')}"
    lines = [f"{_time(record)} {record.partition}/{record.offset}{key} {who} {_short(record.value)}"]
    lines += [f"    {name}: {value}" for name, value in attributes.items() if name.startswith("knativeerror")]
    lines += [f"    {name}: {value}" for name, value in others.items() if name.startswith("penstock-")]
    return [escaped(line) for line in lines]


def split_headers(record: StoredRecord) -> tuple[dict[str, str], dict[str, str]]:
    """(CloudEvents attributes without `ce_`, with the content type as datacontenttype; all other headers)."""
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


def _time(record: StoredRecord) -> str:
    return datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def bytes_as(name: str, value: bytes | None) -> dict[str, str | None]:
    """`name` with the bytes as text, or `name_base64` if they are not text."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _short(value: bytes | None) -> str:
    if value is None:
        return "(no data)"
    text = " ".join(value[: 4 * SHOWN_CHARS].decode("utf-8", "replace").split())
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(value)} bytes)"


def printable(data: bytes) -> str:
    """The data as text, with terminal control characters escaped; line ends stay."""
    lines = data.decode("utf-8", "backslashreplace").splitlines()
    return "\n".join(
        line if line.isprintable() else "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
        for line in lines
    )
