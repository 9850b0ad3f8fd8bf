"""`penstock receive`: the events in a channel's topic, or in any topic, such as that of the dead letters.

It reads the topic itself, in no consumer group: looking on takes nothing away from any subscription. Refuses to change
an event: JSON output has the bytes as they are.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output.format import Format, Output, note, print_json
from knative.errors import NotReadyError, UsageError

if TYPE_CHECKING:
    from app.operations.topic_reader import StoredRecord, TopicReader

_WAIT_S = 30.0
_DATA_CHARS = 120


def register(cli: typer.Typer) -> None:
    """Adds `receive` to the commands."""
    cli.command("receive")(receive)


def receive(
    channel: Annotated[str, typer.Option("--channel", help="NAMESPACE/NAME of a channel.")] = "default/quickstart",
    dead_letters: Annotated[bool, typer.Option("--dlq", help="Its dead letters instead of its events.")] = False,
    topic: Annotated[str, typer.Option("--topic", help="A topic's name instead of --channel.")] = "",
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")] = "",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Everything the topic holds.")] = False,
    last: Annotated[int | None, typer.Option("--last", min=1, help="The last N events the topic holds.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events afterwards.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many events.")] = None,
    limit_s: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help=f"Stop after this many seconds; {_WAIT_S:.0f} with --count."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print events as they are stored: new ones until Ctrl-C, or --last N, or all --from-beginning.

    Ends with 3 when the time limit passes before --count events came.

    \b
    Examples:
      penstock receive
      penstock receive --last 5 -o json
      penstock receive --dlq --from-beginning
      penstock receive --topic knative-messaging-kafka.default.quickstart.dlq --last 1
    """
    from app.operations.topic_reader import TopicReader

    if from_beginning and last is not None:
        raise UsageError("--from-beginning and --last are both there.", "Give one of them.")
    client = kafka_client(kafka)
    name = topic or topic_of(channel, client, dead_letters=dead_letters)
    if limit_s is None and count is not None:
        limit_s = _WAIT_S
    seen = 0
    with suppress(KeyboardInterrupt), TopicReader(name, client) as reader:
        for record in _wanted(reader, from_beginning, last, follow or count is not None, limit_s):
            _show(record, output)
            seen += 1
            if seen == count:
                return
        if count is not None:
            raise NotReadyError(f"{seen} of {count} events came from {name} within {limit_s:g} s.")


def kafka_client(bootstrap: str) -> dict[str, str]:
    """librdkafka settings for reading; `bootstrap` "" = what the settings say."""
    if not bootstrap:
        from app.settings.load import load_settings

        bootstrap = load_settings().kafka
    return {"bootstrap.servers": bootstrap}


def topic_of(channel: str, client: dict[str, str], *, dead_letters: bool) -> str:
    """The topic of a channel, from the contract. Raises PenstockError when it is not in it."""
    from app.operations.contract_snapshot import choose_channel, read_contract
    from app.settings.load import load_settings

    found = choose_channel(read_contract(client, load_settings().instance), channel)
    return found.dlq_topic if dead_letters else found.topic


def _wanted(
    reader: TopicReader, from_beginning: bool, last: int | None, follow: bool, limit_s: float | None
) -> Iterator[StoredRecord]:
    end = None if limit_s is None else time.monotonic() + limit_s
    stored = from_beginning or last is not None
    if stored:
        yield from reader.stored(last)
    else:
        note(f"Waiting for new events in {reader.topic} ...")
    if follow or not stored:
        yield from reader.coming(None if end is None else max(0.0, end - time.monotonic()))


def _show(record: StoredRecord, output: Format) -> None:
    if output is Format.JSON:
        print_json(as_json(record))
    else:
        print("\n".join(as_lines(record)), flush=True)


def as_json(record: StoredRecord) -> dict[str, object]:
    """Everything about a record; bytes that are no text are in base64 (`data_base64`, `key_base64`)."""
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
    return [line if line.isprintable() else ascii(line)[1:-1] for line in lines]  # nothing may drive the terminal


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
    """`name` with the text of the bytes, or `name_base64` when they are none."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _short(value: bytes | None) -> str:
    if value is None:
        return "(no data)"
    text = " ".join(value[: 4 * _DATA_CHARS].decode("utf-8", "replace").split())
    return text if len(text) <= _DATA_CHARS else f"{text[:_DATA_CHARS]}... ({len(value)} bytes)"
