"""A stored record as commands show it to people: as lines without terminal control sequences."""

from __future__ import annotations

from app.cli.output.format import escaped
from app.operations.stored_records import split_headers, time_of
from knative.errors import SHOWN_CHARS
from knative.urls import shown_url
from tables.kafka.topic_reader import StoredRecord


def as_lines(record: StoredRecord) -> list[str]:
    """Returns a line for the event, and for each plain `penstock-` header and error attribute of a dead letter."""
    attributes, others = split_headers(record)
    who = " ".join(attributes.get(name, "-") for name in ("id", "type", "source"))
    key = "" if record.key is None else f" key={record.key.decode('utf-8', 'replace')}"
    lines = [f"{time_of(record)} {record.partition}/{record.offset}{key} {who} {_short(record.value)}"]
    for name, value in attributes.items():
        if name.startswith("knativeerror"):
            lines.append(f"    {name}: {shown_url(value) if name == 'knativeerrordest' else value}")
    lines += [f"    {name}: {value}" for name, value in others.items() if name.startswith("penstock-")]
    return [escaped(line) for line in lines]


def _short(value: bytes | None) -> str:
    if value is None:
        return "(no data)"
    text = " ".join(value[: 4 * SHOWN_CHARS].decode("utf-8", "replace").split())
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(value)} bytes)"


def printable(data: bytes) -> str:
    """Returns the data as text, with terminal control characters escaped; line ends stay."""
    lines = data.decode("utf-8", "backslashreplace").splitlines()
    return "\n".join(
        line if line.isprintable() else "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
        for line in lines
    )
