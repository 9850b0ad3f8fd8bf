"""`penstock tail`: the latest events of a channel or broker, or of any topic, and new ones, without a consumer group.

JSON output has the bytes unchanged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

import typer

from app.cli.options.completion import complete_channel
from app.cli.options.given import not_together
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.resource import topic_of
from app.cli.output.format import Format, Output, note, print_json
from app.cli.output.records import as_lines, printable
from app.local.packaged import QUICKSTART
from app.operations.event_filter import EventFilter, read_filters
from app.operations.stored_records import as_json
from app.operations.times import read_time
from app.timing import LOOK_S
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.kafka.topic_reader import StoredRecord, TopicReader

_LAST = 10


Channel = Annotated[
    str,
    typer.Argument(help="NAMESPACE/NAME of a channel or broker.", metavar="CHANNEL", autocompletion=complete_channel),
]
Last = Annotated[
    int | None,
    typer.Option("--last", min=0, help=f"Start with the last N events; by default {_LAST}, or all with --since."),
]
Beginning = Annotated[
    bool, typer.Option("--from-beginning", help="Start with the first event that the topic still has.")
]
Since = Annotated[
    str,
    typer.Option(
        "--since", help="Start with the events since a time: how long ago (90s, 10m, 2d), or an RFC 3339 time."
    ),
]
Until = Annotated[str, typer.Option("--until", help="Print only events before a time (same format), then exit.")]
Follow = Annotated[
    bool, typer.Option("--follow/--no-follow", "-f", help="Continue with new events; this is the default.")
]
Retry = Annotated[
    bool,
    typer.Option(
        "--retry", "-F", help="Like --follow, but also wait while the channel does not exist or Kafka does not answer."
    ),
]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Exit after N events.")]
Limit = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Exit after this many seconds; by default 30 with --count.")
]
Wishes = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="Print only events that match ATTRIBUTE=VALUE or a CESQL expression; if repeated, all must match.",
    ),
]
DeadLetters = Annotated[bool, typer.Option("--dlq", help="Print the dead letters instead of the events.")]
Topic = Annotated[str, typer.Option("--topic", help="Read this Kafka topic, instead of CHANNEL.")]
Body = Annotated[bool, typer.Option("--body", help="Print the complete data of each event.")]


def tail(
    channel: Channel = QUICKSTART,
    last: Last = None,
    from_beginning: Beginning = False,
    since: Since = "",
    until: Until = "",
    follow: Follow = True,
    retry: Retry = False,
    count: Count = None,
    limit_s: Limit = None,
    wishes: Wishes = None,
    dead_letters: DeadLetters = False,
    topic: Topic = "",
    body: Body = False,
    kafka: Kafka = "",
    output: Output = Format.TABLE,
) -> None:
    """Print the latest events of a channel or broker, then new ones.

    The command ends at Ctrl-C, or as --no-follow, --until, --count or --timeout say. Exit code: 3 if --count events
    did not come in time. It reads without a consumer group, so it takes no event away from a subscription.

    With --filter, --last and --count mean matching events. Kafka has no index of attributes, so this reads the whole
    topic; --since limits that.

    \b
    Examples:
      penstock tail
      penstock tail default/quickstart --last 100 --no-follow -o json
      penstock tail default/quickstart --since 10m --filter type=dev.penstock.example --filter source=/shop
      penstock tail default/shop --filter "type LIKE 'order.%' AND int(amount) > 100"
      penstock tail default/quickstart --since 1h --until 10m -o json
      penstock tail default/quickstart --dlq --from-beginning --no-follow
      penstock tail --topic knative-messaging-kafka.default.quickstart.dlq --last 1 --no-follow
    """
    filters = read_filters(wishes or ())
    _check_together(last=last, from_beginning=from_beginning, since=since, follow=follow, retry=retry)
    now_s = time.time()
    since_ms = int(read_time(since, "--since", now_s) * 1000) if since else 0 if from_beginning else None
    until_ms = int(read_time(until, "--until", now_s) * 1000) if until else None
    end = _end_of(until_ms, 30.0 if limit_s is None and count is not None else limit_s)
    client = kafka_client(kafka)

    def read(last: int | None, since_ms: int | None) -> Iterator[StoredRecord]:
        name = topic or topic_of(channel, client, dead_letters=dead_letters)
        with TopicReader(name, client) as reader:
            yield from _stored(reader, last, (since_ms, until_ms), filters)
            if follow:
                yield from _coming(reader, end, until_ms, filters, quiet=output is not Format.TABLE)

    seen = 0
    with suppress(KeyboardInterrupt):
        for record in islice(read_again(read, last, since_ms, end) if retry else read(last, since_ms), count):
            show(record, output, body=body)
            seen += 1
        if count is not None and seen < count:
            raise NotReadyError(f"{seen} of {count} events came from {topic or channel}.")


def _check_together(*, last: int | None, from_beginning: bool, since: str, follow: bool, retry: bool) -> None:
    """Raises UsageError for options that contradict each other."""
    if from_beginning and (last is not None or since):
        raise UsageError("--from-beginning cannot be combined with --last and --since.", "Remove one of these options.")
    not_together("--retry", "--no-follow", both=retry and not follow)


def _end_of(until_ms: int | None, limit_s: float | None) -> float | None:
    """Returns when to stop waiting for new events, in monotonic seconds; None = never."""
    ends = [] if limit_s is None else [limit_s]
    ends += [] if until_ms is None else [until_ms / 1000 - time.time()]
    return time.monotonic() + min(ends) if ends else None


def _coming(
    reader: TopicReader, end: float | None, until_ms: int | None, filters: EventFilter, *, quiet: bool
) -> Iterator[StoredRecord]:
    limit_s = None if end is None else end - time.monotonic()
    if limit_s is not None and limit_s <= 0:
        return
    if not quiet:
        note(f"Waiting for new events in {reader.topic} ... (Ctrl-C stops)")
    for record in reader.coming(limit_s):
        if filters.passes(record) and (until_ms is None or record.timestamp_ms < until_ms):
            yield record


def read_again(
    read: Callable[[int | None, int | None], Iterator[StoredRecord]],
    last: int | None,
    since_ms: int | None,
    end: float | None = None,
) -> Iterator[StoredRecord]:
    """Yields what `read` yields, each record once, again after errors that may pass, until `end` in monotonic seconds.
    Says what it waits for."""
    printed, why = Printed(), None
    while True:
        try:
            for record in read(last, since_ms):
                why = None
                if printed.is_new(record):
                    yield record
            return
        except UsageError:
            raise
        except PenstockError as problem:
            if end is not None and time.monotonic() >= end:
                raise
            if problem.what != why:
                note(f"{problem.what} Waiting ... (Ctrl-C stops)")
            why = problem.what
            if printed.latest_ms is not None:
                last, since_ms = None, printed.latest_ms
        time.sleep(LOOK_S)


@dataclass(slots=True)
class Printed:
    """Which records were printed: of a topic, and of another one of the same name that replaces it."""

    latest_ms: int | None = None
    _offsets: dict[int, int] = field(default_factory=dict)  #: the last one of each partition

    def is_new(self, record: StoredRecord) -> bool:
        """Returns whether the record was not printed before; from now on it was."""
        latest_ms = self.latest_ms or 0
        if record.offset <= self._offsets.get(record.partition, -1) and record.timestamp_ms <= latest_ms:
            return False
        self._offsets[record.partition] = record.offset
        self.latest_ms = max(latest_ms, record.timestamp_ms)
        return True


def _stored(
    reader: TopicReader, last: int | None, span_ms: tuple[int | None, int | None], filters: EventFilter
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
    chosen = (record for record in records if filters.passes(record))
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
