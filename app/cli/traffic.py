"""`penstock traffic`: what recently went through channels and subscriptions, from the traffic windows in Kafka.

Reads the rows that /traffic shows, without asking a worker or joining a group. Does not sum deltas itself: if no worker
keeps windows, there is nothing to show.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.options.completion import complete_channel
from app.cli.options.extras import need_or_install
from app.cli.options.given import given
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.namespace import AllNamespaces, Context, Namespace, chosen_namespace
from app.cli.output import watch as watching
from app.cli.output.format import Listing, View, Views, note, print_json, print_yaml
from app.operations.contract_snapshot import choose_channel, in_namespace, read_contract
from app.operations.times import read_time
from app.settings import load_settings
from app.settings.extras import REPORT
from knative.contract import kafka_names
from knative.contract.records import CHANNEL, SUBSCRIPTION, Channel, kind_and_name
from knative.errors import PenstockError, UsageError
from knative.traffic import latency_sketch
from knative.traffic.counts import OF_SUBSCRIPTIONS, column
from tables.kafka.compacted_topic import Record
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.traffic_windows.view import Line, TrafficRows
from tables.traffic_windows.windows import LONG_S, Window, merged, start_of

_LISTING = Listing(
    columns={
        "kind": "KIND",
        "name": "NAME",
        "accepted": "IN",
        "delivered": "OUT",
        "per_s": "PER S",
        "retried": "RETRIED",
        "dead_lettered": "DEAD",
        "p50": "P50",
        "p99": "P99",
    },
    wide={"window": "FROM", "bytes": "BYTES", "filtered": "FILTERED", "ignored": "IGNORED", "p95": "P95"},
    name="name",
    kind="kind",
    empty="There was no traffic in this time.",
)
_EACH = replace(
    _LISTING,
    columns={"window": "FROM", **_LISTING.columns},
    wide={name: heading for name, heading in _LISTING.wide.items() if name != "window"},
)


Of = Annotated[
    str,
    typer.Option("--channel", help="Show only the channel or broker NAMESPACE/NAME.", autocompletion=complete_channel),
]
Since = Annotated[
    str,
    typer.Option(
        "--since", help="Traffic since a time, from the job's tables: how long ago (90m, 7d), or an RFC 3339 time."
    ),
]
Until = Annotated[str, typer.Option("--until", help="With --since: traffic before a time, in the same format.")]
Folder = Annotated[
    str, typer.Option("--folder", help="With --since: folder of the traffic tables; by default PENSTOCK_TRAFFIC_DIR.")
]


class Size(StrEnum):
    """The values of `--window`."""

    SHORT = "10s"
    LONG = "1m"


def traffic(
    call: typer.Context,
    window: Annotated[Size, typer.Option("--window", help="Size of the windows.")] = Size.SHORT,
    last: Annotated[int, typer.Option("--last", min=1, help="Number of windows, including the current one.")] = 6,
    each: Annotated[bool, typer.Option("--each", help="One row for each window instead of the sum.")] = False,
    channel: Of = "",
    since: Since = "",
    until: Until = "",
    folder: Folder = "",
    watch: watching.Watch = False,
    every_s: watching.Every = 2.0,
    namespace: Namespace = "",
    everywhere: AllNamespaces = False,
    context: Context = "",
    kafka: Kafka = "",
    output: Views = View.TABLE,
) -> None:
    """Show the traffic of channels and subscriptions.

    By default it shows the last minute; with --since, a time range that `penstock job traffic` has counted.

    \b
    Examples:
      penstock traffic
      penstock traffic --watch
      penstock traffic --window 1m --last 60 --channel default/quickstart
      penstock traffic --each -o json
      penstock traffic -n default
      penstock traffic --since 7d --until 1d
    """
    settings = load_settings()
    _check_last(window, last, {"10s": settings.traffic_10s_keep_s, "1m": settings.traffic_1m_keep_s}[window])
    if channel and (channel.count("/") not in (1, 2) or not all(channel.split("/"))):
        raise UsageError(
            f"--channel {channel!r} is not NAMESPACE/NAME.", "Write the name as `penstock status` shows it."
        )
    client = kafka_client(kafka)
    where = chosen_namespace(namespace, everywhere, context)
    contract = in_namespace(read_contract(client, settings.instance), where) if channel or where else None
    chosen = choose_channel(contract, channel) if channel and contract is not None else None
    if since:
        for option in given(call):
            if option in ("--window", "--last", "--each", "--watch", "--every"):
                raise UsageError(f"{option} cannot be combined with --since, which shows one sum.", f"Remove {option}.")
        need_or_install(REPORT, "`penstock traffic --since`")
        _LISTING.show(history_rows(folder or settings.traffic_dir, since, until, chosen, where), output)
        return
    if until or folder:
        raise UsageError("--until and --folder have no effect without --since.", "Add --since.")

    def read() -> list[Line]:
        return read_lines(client, settings.instance, _SECONDS[window], last, chosen, where)

    def tables(lines: list[Line]) -> list[tuple[Listing, list[dict[str, object]]]]:
        return [(_EACH if each else _LISTING, rows(lines, _SECONDS[window], last, each=each))]

    def show(lines: list[Line]) -> None:
        if output in (View.JSON, View.YAML):
            from web.pages.traffic import to_page

            (print_json if output is View.JSON else print_yaml)(to_page(window, last, lines, time.time()))
        else:
            for listing, table in tables(lines):
                listing.show(table, output)

    if watch:
        watching.watch(read, show, tables, every_s, output)
    else:
        show(read())


_SECONDS: Mapping[Size, int] = {Size.SHORT: 10, Size.LONG: 60}


def _check_last(window: Size, last: int, keep_s: int) -> None:
    """Raise UsageError if fewer windows are kept."""
    most = keep_s // _SECONDS[window]
    if last > most:
        raise UsageError(
            f"--last {last} is too large: Penstock keeps {most} windows of {window}.", f"Use at most {most}."
        )


def read_lines(
    client: Mapping[str, Any], instance: str, size: int, last: int, channel: Channel | None = None, namespace: str = ""
) -> list[Line]:
    """Returns the last windows, of one channel, one namespace or all, from Kafka. Raises NotReadyError, PenstockError
    if there are none."""
    topic = kafka_names.windows_changelog_topic(instance)
    begins = start_of(int(time.time()), size) - (last - 1) * size
    kept_s = last * size + LONG_S
    view = TrafficRows(topic, client, kept_s, kept_s)
    try:
        with TopicReader(topic, client) as reader:
            for record in reader.since(begins * 1000):  # a row is never written before its window begins
                if record.key is not None:
                    view.apply([Record(record.key, record.value, record.partition, record.offset)])
    except NoSuchTopicError as problem:
        raise PenstockError(
            f"This Kafka has no traffic windows of the instance {instance}.",
            "Start a worker of role all or controller with PENSTOCK_TRAFFIC=true, which writes traffic windows.",
        ) from problem
    if channel is None:
        return view.lines(size, last, namespace)
    return view.lines(size, last, channel.namespace, (channel.unique_name,))


def rows(lines: list[Line], size: int, last: int, *, each: bool) -> list[dict[str, object]]:
    """Returns a row for each line, or for each of its windows, the latest first. Rates are over full windows and the
    elapsed part of the current one.
    """
    now = time.time()
    table: list[dict[str, object]] = []
    for line in lines:
        if each:
            for start, window in sorted(line.windows.items(), reverse=True):
                table.append(_row(line, start, window, min(size, now - start)))
        else:
            first = int(now) - int(now) % size - (last - 1) * size
            table.append(_row(line, first, merged(line.windows.values()), now - first))
    return table


def history_rows(
    folder: str, since: str, until: str, channel: Channel | None, namespace: str
) -> list[dict[str, object]]:
    """Returns a row for each line of the tables. Rates are over the windows of the range."""
    from analytics.traffic.windows import size_for
    from app.operations.traffic_history import read_history

    now_s = time.time()
    begin_s = read_time(since, "--since", now_s)
    end_s = read_time(until, "--until", now_s) if until else now_s
    if begin_s >= end_s:
        raise UsageError("--since is not before --until.", "Swap them.")
    lines, (first, last) = read_history(folder, begin_s, end_s, channel, namespace)
    size = size_for(begin_s, end_s)
    if lines and (first + size <= begin_s or last >= end_s + size):
        note(f"The tables have longer windows for this time, so the sum is from {_moment(first)} to {_moment(last)}.")
    seconds = min(last, now_s) - first  # the last window may not be over
    return [_row(line, start, window, seconds) for line in lines for start, window in line.windows.items()]


def _row(line: Line, start: int, window: Window, seconds: float) -> dict[str, object]:
    counts = window.counts
    own = not line.subscription  # of the channel itself: the events that it has accepted
    kind, name = kind_and_name(line.channel if own else line.subscription, CHANNEL if own else SUBSCRIPTION)
    row: dict[str, object] = {
        "kind": kind,
        "name": f"{line.namespace}/{name}",
        "window": _moment(start),
        "per_s": f"{(counts.events if own else counts.delivered) / max(seconds, 1.0):.1f}",
        "bytes": counts.bytes,
    }
    if own:
        return {**row, "accepted": counts.events}
    row.update((column(name), getattr(counts, name)) for name in OF_SUBSCRIPTIONS)
    return {**row, **{f"p{q}": _duration(latency_sketch.quantile(window.latency, q / 100)) for q in (50, 95, 99)}}


def _moment(second: int) -> str:
    """Returns the local time of a Unix second, with the date unless that is today."""
    at, today = time.localtime(second), time.localtime()
    return time.strftime("%H:%M:%S" if at[:3] == today[:3] else "%Y-%m-%d %H:%M", at)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
