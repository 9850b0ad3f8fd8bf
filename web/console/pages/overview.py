"""The overview: all resources, the worst first, with what flows, waits and fails. As `penstock status -o wide`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from knative.contract.records import SUBSCRIPTION, TRIGGER
from tables.resource_status import WORKER, ResourceStatus
from tables.status_table import FRESH_S
from web.console.page import Ask, Page, Values
from web.console.rows import PATHS, Level, Row, level_of, row_of, worst_first
from web.console.traffic import WINDOWS, flows

_READERS = (SUBSCRIPTION, TRIGGER)


async def _build(ask: Ask) -> Values:
    return await asyncio.to_thread(overview, ask)


def overview(ask: Ask) -> Values:
    """What the page shows of the resources that the query asks for."""
    state = ask.state
    resources = [status for status in state.resources if status.kind in PATHS]
    chosen = select(resources, ask.query)
    names = {_channel(status) for status in chosen if status.channel is not None or status.subscription is not None}
    traffic = flows(state.traffic, names, state.at_s)
    readers = Counter(status.subscription.channel_uid for status in resources if status.subscription is not None)
    rows = worst_first(
        row_of(status, traffic, state.letters, readers[status.channel.uid] if status.channel is not None else 0)
        for status in chosen
    )
    if ask.query.get("show") == "worse":
        rows = [row for row in rows if row.level < Level.OK]
    return {
        "state": state,
        "subscriptions": (below := [row for row in rows if row.kind in _READERS])[: ask.limits.rows_max],
        "channels": (above := [row for row in rows if row.kind not in _READERS])[: ask.limits.rows_max],
        "left_out": max(0, len(below) - ask.limits.rows_max) + max(0, len(above) - ask.limits.rows_max),
        "totals": totals(rows),
        "workers": sum(state.at_s - worker.time <= FRESH_S for worker in state.workers),
        "problems": [
            (level_of(status), "worker " + status.name if status.kind == WORKER else status.label, status.ready.message)
            for status in state.resources
            if status.kind not in PATHS
        ],
        "query": {name: ask.query.get(name, "") for name in ("q", "namespace", "show")},
        "namespaces": sorted({status.namespace for status in resources}),
        "is_empty": not resources,
    }


def select(resources: Iterable[ResourceStatus], query: Mapping[str, str]) -> list[ResourceStatus]:
    """Those of a namespace whose name, channel or message contains the text."""
    namespace, text = query.get("namespace", ""), query.get("q", "").strip().casefold()
    return [
        status
        for status in resources
        if namespace in ("", status.namespace) and (not text or text in _searched(status).casefold())
    ]


def _searched(status: ResourceStatus) -> str:
    channel = "" if status.subscription is None else status.subscription.channel
    return f"{status.kind} {status.label} {channel} {status.ready.reason} {status.ready.message}"


def _channel(status: ResourceStatus) -> tuple[str, str]:
    if status.subscription is not None:
        return status.namespace, status.subscription.unique_channel
    assert status.channel is not None
    return status.namespace, status.channel.unique_name


def totals(rows: Sequence[Row]) -> Values:
    """The sums over all rows."""
    above = [row for row in rows if row.kind not in _READERS]
    below = [row for row in rows if row.kind in _READERS]
    counted = [row.letters for row in below if row.letters is not None]
    return {
        "in": sum(row.flow.per_s for row in above),
        "out": sum(row.flow.per_s for row in below),
        "in_series": _sum(above),
        "out_series": _sum(below),
        "lag": sum(row.lag for row in below),
        "retrying": sum(row.retrying for row in below),
        "letters": sum(counted) if counted or not below else None,
    }


def _sum(rows: Sequence[Row]) -> list[float]:
    return [sum(numbers) for numbers in zip(*(row.flow.series for row in rows), strict=True)] or [0.0] * (WINDOWS - 1)


PAGES = (Page("/", "overview.html", _build, nav="Overview"),)
