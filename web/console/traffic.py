"""Rates and delivery times of channels and subscriptions, from windows of 10 s. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from knative.traffic import latency_sketch
from tables.traffic_windows.view import HeldRows, Name
from tables.traffic_windows.windows import LONG_S, SHORT_S, Window, events_of, merged

WINDOWS = 15 * LONG_S // SHORT_S + 1  #: the current one, which still grows, and those of a quarter of an hour
_MINUTE = LONG_S // SHORT_S

# Rows that are over never change, and a page asks for all of them again every two seconds.
_events_of = lru_cache(32_768)(events_of)


@lru_cache(128)
def _latency_of(rows: tuple[bytes, ...]) -> Mapping[int, int]:
    return merged(map(Window.decode, rows)).latency


def forget() -> None:
    """Forget the cached rows, because no page is open."""
    _events_of.cache_clear()
    _latency_of.cache_clear()


@dataclass(frozen=True, slots=True)
class Flow:
    """The events of a channel that were accepted, or those of a subscription that were delivered."""

    per_s: float | None = 0.0  #: of the last minute; None = traffic is not counted
    series: tuple[float, ...] = (0.0,) * (WINDOWS - 1)  #: events per second in each full window, the oldest first


NO_FLOW = Flow()
UNKNOWN_FLOW = Flow(None)


def flows(traffic: HeldRows, names: Collection[Name]) -> dict[Name, Flow]:
    """Returns the flows of those channels and subscriptions that have one."""
    series: dict[Name, list[float]] = defaultdict(lambda: [0.0] * (WINDOWS - 1))
    for place, (_, rows) in enumerate([*traffic.rows(SHORT_S, WINDOWS)][:-1]):
        for name in rows.keys() & names:
            series[name][place] = _events_of(rows[name]) / SHORT_S
    return {name: Flow(sum(rates[-_MINUTE:]) / _MINUTE, tuple(rates)) for name, rates in series.items()}


def rates(traffic: HeldRows | None) -> dict[Name, float] | None:
    """Returns events per second in the last minute, of everything; None = traffic is not counted."""
    if traffic is None:
        return None
    per_s: dict[Name, float] = defaultdict(float)
    for _, rows in [*traffic.rows(SHORT_S, _MINUTE + 1)][:-1]:
        for name, value in rows.items():
            per_s[name] += _events_of(value) / LONG_S
    return per_s


def delivery_times(traffic: HeldRows | None, name: Name) -> tuple[float | None, float | None]:
    """Returns p50 and p99 of a subscription in the last quarter of an hour, in seconds; None: without deliveries."""
    if traffic is None:
        return None, None
    *full, current = (rows.get(name) for _, rows in traffic.rows(SHORT_S, WINDOWS))
    latency = dict(_latency_of(tuple(filter(None, full))))
    if current is not None:
        latency_sketch.merge(latency, Window.decode(current).latency)
    return latency_sketch.quantile(latency, 0.5), latency_sketch.quantile(latency, 0.99)
