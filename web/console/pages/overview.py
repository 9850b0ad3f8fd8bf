"""The overview: all resources, the worst first, with what flows, waits and fails. As `penstock status -o wide`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from knative.contract.records import SUBSCRIPTION, TRIGGER
from tables.resource_status import WORKER, ResourceStatus
from tables.status_table import FRESH_S
from tables.traffic_windows.view import Name
from web.console.page import Ask, Page, Values, choices
from web.console.rows import PATHS, Level, Row, level_of, row_of, with_flows, worst_first
from web.console.traffic import WINDOWS, rates

_READERS = (SUBSCRIPTION, TRIGGER)


async def _build(ask: Ask) -> Values:
    return await asyncio.to_thread(overview, ask)


def overview(ask: Ask) -> Values:
    """Returns what the page shows of the resources that the query asks for."""
    state = ask.state
    resources = [status for status in state.resources if status.kind in PATHS]
    readers = Counter(status.subscription.channel_uid for status in resources if status.subscription is not None)
    rows = worst_first(
        row_of(status, state.letters, readers[status.channel.uid] if status.channel is not None else 0)
        for status in select(resources, ask.query)
    )
    if ask.query.get("show") == "worse":
        rows = [row for row in rows if row.level < Level.OK]
    most = ask.limits.rows_max
    below, above = ([row for row in rows if (row.kind in _READERS) is reads] for reads in (True, False))
    subscriptions, channels = with_flows(below[:most], state.traffic), with_flows(above[:most], state.traffic)
    left_out = len(rows) - len(subscriptions) - len(channels)
    return {
        "counts_traffic": state.traffic is not None,
        "subscriptions": subscriptions,
        "channels": channels,
        "left_out": left_out,
        "totals": totals(below, above, rates(state.traffic)),
        # The course of a part of the rows would look like that of all.
        "in_series": None if left_out else _sum(channels),
        "out_series": None if left_out else _sum(subscriptions),
        "workers": sum(state.at_s - worker.time <= FRESH_S for worker in state.workers),
        "problems": [
            (level_of(status), "worker " + status.name if status.kind == WORKER else status.label, status.ready.message)
            for status in state.resources
            if status.kind not in PATHS
        ],
        "query": {name: ask.query.get(name, "") for name in ("q", "namespace", "show")},
        "namespaces": choices({status.namespace: status.namespace for status in resources}, most),
        "is_empty": not resources,
    }


def select(resources: Iterable[ResourceStatus], query: Mapping[str, str]) -> list[ResourceStatus]:
    """Selects the rows of a namespace whose name, channel or message contains the text."""
    namespace, text = query.get("namespace", ""), query.get("q", "").strip().casefold()
    return [
        status
        for status in resources
        if namespace in ("", status.namespace) and (not text or text in _searched(status).casefold())
    ]


def _searched(status: ResourceStatus) -> str:
    channel = "" if status.subscription is None else status.subscription.channel
    return f"{status.kind} {status.label} {channel} {status.ready.reason} {status.ready.message}"


def totals(below: Sequence[Row], above: Sequence[Row], per_s: Mapping[Name, float] | None) -> Values:
    """Sums over all rows, including those that are left out. `below`: subscriptions and triggers; `above`: channels and
    brokers."""
    counted = [row.letters for row in below if row.letters is not None]
    return {
        "in": None if per_s is None else sum(per_s.get(row.name_in_traffic, 0.0) for row in above),
        "out": None if per_s is None else sum(per_s.get(row.name_in_traffic, 0.0) for row in below),
        "lag": sum(row.lag for row in below),
        "retrying": sum(row.retrying for row in below),
        "letters": sum(counted) if counted or not below else None,
    }


def _sum(rows: Sequence[Row]) -> list[float]:
    return [sum(numbers) for numbers in zip(*(row.flow.series for row in rows), strict=True)] or [0.0] * (WINDOWS - 1)


PAGES = (Page("/", "overview.html", _build, nav="Overview"),)
