"""`penstock tail CHANNEL`: the latest events of a channel and new ones, without a consumer group.

It takes no events away from a subscription. JSON output has the bytes unchanged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated

import typer

from app.cli.options.completion import complete_channel
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import topic_of
from app.cli.options.time import read_time
from app.cli.output.format import Format, Output, note, print_json
from app.cli.output.records import as_json, as_lines, printable, split_headers
from knative.errors import UsageError
from tables.kafka.topic_reader import StoredRecord, TopicReader

_LAST = 10


def tail(
    channel: Annotated[
        str, typer.Argument(help="NAMESPACE/NAME of a channel.", metavar="CHANNEL", autocompletion=complete_channel)
    ],
    last: Annotated[
        int | None,
        typer.Option("--last", min=0, help=f"First the last N events; by default {_LAST}, or none with --since."),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", help="First the events since then: 90s, 10m, 2d ago, or an RFC 3339 time.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="Events before then, in the same format; then exit.")] = "",
    wishes: Annotated[
        list[str] | None,
        typer.Option("--filter", help="ATTRIBUTE=VALUE: only events that have it; if repeated, all must match."),
    ] = None,
    body: Annotated[bool, typer.Option("--body", help="Print the complete data of each event.")] = False,
    dead_letters: Annotated[bool, typer.Option("--dlq", help="Print the dead letters instead of the events.")] = False,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f/-F", help="Continue with new events.")] = True,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Print the latest events of a channel, then new ones until Ctrl-C.

    With --filter, --last counts matching events only. Kafka has no index of attributes, so this reads the whole topic;
    --since limits that.

    \b
    Examples:
      penstock tail default/quickstart
      penstock tail default/quickstart --last 100 --no-follow -o json
      penstock tail default/quickstart --since 10m --filter type=dev.penstock.example --filter source=/shop
      penstock tail default/quickstart --since 1h --until 10m -o json
      penstock tail default/quickstart --last 1 --no-follow --body
      penstock tail default/quickstart --dlq
    """
    filters = read_filters(wishes or ())
    now_s = time.time()
    since_ms = int(read_time(since, "--since", now_s) * 1000) if since else None
    until_ms = int(read_time(until, "--until", now_s) * 1000) if until else None
    client = kafka_client(kafka)
    topic = topic_of(channel, client, dead_letters=dead_letters)
    with suppress(KeyboardInterrupt), TopicReader(topic, client) as reader:
        for record in _stored(reader, last, (since_ms, until_ms), filters):
            show(record, output, body=body)
        limit_s = None if until_ms is None else until_ms / 1000 - time.time()
        if not follow or (limit_s is not None and limit_s <= 0):
            return
        if output is Format.TABLE:
            note(f"Waiting for new events in {topic} ... (Ctrl-C ends it)")
        for record in reader.coming(limit_s):
            if has(record, filters) and (until_ms is None or record.timestamp_ms < until_ms):
                show(record, output, body=body)


def read_filters(wishes: Sequence[str]) -> dict[str, str]:
    """`ATTRIBUTE=VALUE` texts as a dict. Raises UsageError for anything else, and for an attribute named twice."""
    filters: dict[str, str] = {}
    for wish in wishes:
        name, equals, value = wish.partition("=")
        if not equals or not name:
            raise UsageError(f"--filter {wish!r} is incomplete.", "Write ATTRIBUTE=VALUE, such as type=order.placed.")
        if filters.setdefault(name, value) != value:
            raise UsageError(f"--filter asks for two values of {name}; an event has only one.", "Use one of them.")
    return filters


def has(record: StoredRecord, filters: Mapping[str, str]) -> bool:
    """Whether the event has all these attributes with these values."""
    return not filters or filters.items() <= split_headers(record)[0].items()


def _stored(
    reader: TopicReader, last: int | None, span_ms: tuple[int | None, int | None], filters: Mapping[str, str]
) -> Iterator[StoredRecord]:
    since_ms, until_ms = span_ms
    if since_ms is None and until_ms is None and not filters:
        yield from reader.stored(_LAST if last is None else last)
        return
    if last is None and since_ms is None:
        last = _LAST
    if last == 0:
        return
    records = reader.between(since_ms, until_ms)
    chosen = (record for record in records if has(record, filters))
    if last is None:
        yield from chosen
        return
    # Partitions are read in parallel: the newest records are those with the latest times, not those read last.
    newest: deque[StoredRecord] = deque()
    while block := list(islice(chosen, 10 * last)):
        newest = deque(sorted([*newest, *block], key=_age)[-last:])
    yield from newest


def _age(record: StoredRecord) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset


def show(record: StoredRecord, output: Format, *, body: bool) -> None:
    """Print one JSON line, or lines for people; `body`: with all of the data, terminal control sequences escaped."""
    if output is Format.JSON:
        print_json(as_json(record))
        return
    lines = as_lines(record)
    if body and record.value:
        lines += [f"    {line}" for line in printable(record.value).splitlines()]
    print("\n".join(lines), flush=True)
