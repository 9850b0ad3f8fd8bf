"""Rates and delivery times of channels and subscriptions, from windows of 10 s. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from knative.traffic import latency_sketch
from tables.traffic_windows.view import HeldRows, Line
from tables.traffic_windows.windows import LONG_S, SHORT_S, merged, start_of

WINDOWS = 15 * LONG_S // SHORT_S + 1  #: the current one, which still grows, and those of a quarter of an hour
_MINUTE = LONG_S // SHORT_S
_Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Flow:
    """The events of a channel that were accepted, or those of a subscription that were delivered."""

    per_s: float = 0.0  #: of the last minute
    series: tuple[float, ...] = (0.0,) * (WINDOWS - 1)  #: events per second in each full window, the oldest first
    p50_s: float | None = None  #: delivery time in the last quarter of an hour
    p99_s: float | None = None


NO_FLOW = Flow()


def flows(traffic: HeldRows | None, channels: Collection[tuple[str, str]], now_s: float) -> dict[_Name, Flow]:
    """By namespace, unique names of the channel and of the subscription ("" = the channel itself). `channels`: those
    whose flows are asked for, as namespace and unique name."""
    if traffic is None or not channels:
        return {}
    names = frozenset(name for _, name in channels)
    lines = traffic.lines(SHORT_S, WINDOWS, channels=names)
    return {(line.namespace, line.channel, line.subscription): _flow(line, now_s) for line in lines}


def _flow(line: Line, now_s: float) -> Flow:
    current = start_of(int(now_s), SHORT_S)
    series = []
    for start in range(current - (WINDOWS - 1) * SHORT_S, current, SHORT_S):
        window = line.windows.get(start)
        counts = None if window is None else window.counts
        events = 0 if counts is None else counts.delivered if line.subscription else counts.events
        series.append(events / SHORT_S)
    latency = merged(line.windows.values()).latency
    return Flow(
        sum(series[-_MINUTE:]) / _MINUTE,
        tuple(series),
        latency_sketch.quantile(latency, 0.5),
        latency_sketch.quantile(latency, 0.99),
    )
