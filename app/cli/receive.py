"""`penstock receive`: the events in a channel's topic, or in any topic, such as a DLQ topic.

Reads without a consumer group, so it takes no events away from a subscription. JSON output has the bytes unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer

from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import topic_of
from app.cli.output.format import Format, Output, note, print_json
from app.cli.output.records import as_json, as_lines
from knative.errors import NotReadyError, UsageError
from tables.kafka.topic_reader import StoredRecord, TopicReader

_WAIT_S = 30.0


def receive(
    channel: Annotated[
        str, typer.Option("--channel", help="NAMESPACE/NAME of a channel or broker.")
    ] = "default/quickstart",
    dead_letters: Annotated[bool, typer.Option("--dlq", help="Print the dead letters instead of the events.")] = False,
    topic: Annotated[str, typer.Option("--topic", help="A topic's name instead of --channel.")] = "",
    kafka: Kafka = "",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="All records in the topic.")] = False,
    last: Annotated[int | None, typer.Option("--last", min=1, help="The last N records in the topic.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then print new events until Ctrl-C.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many events.")] = None,
    limit_s: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help=f"Stop after this many seconds; {_WAIT_S:.0f} with --count."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print stored events: new ones until Ctrl-C, or --last N, or all with --from-beginning.

    Exit code: 3 if the time limit passes before --count events arrived.

    \b
    Examples:
      penstock receive
      penstock receive --last 5 -o json
      penstock receive --dlq --from-beginning
      penstock receive --topic knative-messaging-kafka.default.quickstart.dlq --last 1
    """
    if from_beginning and last is not None:
        raise UsageError("--from-beginning and --last cannot be combined.", "Use one of them.")
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
