"""Slow subscribers: how near the order's own ceiling a subscription comes, and how much a backlog grows a process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from benchmarks.ceilings import added, share_of_ceiling
from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import Implementation, Process, Wanted
from benchmarks.lab import Lab, Memory, Stage, drain
from benchmarks.measures.measure import Measure, Values
from benchmarks.subscribers import Subscribers

ORDERED = {
    delay_ms: Row(f"ordered, subscriber takes {delay_ms} ms: rate by its ceiling", "%", 90, HIGHER)
    for delay_ms in (10, 100)
}
KEY_ORDERED = {
    10: Row("key-ordered, subscriber takes 10 ms, 256 in flight: rate", "events/s", 10_000, HIGHER, 0),
    100: Row("key-ordered, subscriber takes 100 ms, 256 in flight: rate", "events/s", 2_300, HIGHER, 0),
}
GROWTH = Row("10 slow subscriptions, 4 partitions, 10 kB events: growth of RSS", "MB", 64)

_ORDERED_EVENTS = {10: 3_000, 100: 300}
_KEY_EVENTS = {10: 40_000, 100: 10_000}
_IN_FLIGHT = 256
_BACKLOG, _BACKLOG_BYTES, _BACKLOG_PARTITIONS, _BACKLOG_S, _SETTLE_S = 8_000, 10_000, 4, 4.0, 1.0


@contextmanager
def _scene(
    lab: Lab,
    implementation: Implementation,
    order: str,
    rows: Mapping[int, Row],
    measured: Callable[[Stage, Process, Subscribers, int], float],
) -> Iterator[Callable[[], Values]]:
    """Sets up a subscription of this order; each round measures every delay of `rows` (in ms) in one process."""
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted("slow", sink.url("slow"), order, _IN_FLIGHT)]) as stage,
    ):

        def delayed(process: Process, delay_ms: int) -> float:
            sink.behave("slow", f"delay_s={delay_ms / 1000}")
            return measured(stage, process, sink, delay_ms)

        def once() -> Values:
            with stage.dispatcher() as process:
                sink.behave("slow", "")
                _pass(stage, process, sink, "slow", lab.events(1000))
                return {row: delayed(process, delay_ms) for delay_ms, row in rows.items()}

        yield once


@contextmanager
def _ordered_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    def share(stage: Stage, process: Process, sink: Subscribers, delay_ms: int) -> float:
        sink.times("slow")
        events, before = lab.events(_ORDERED_EVENTS[delay_ms]), stage.ends()
        _pass(stage, process, sink, "slow", events)
        times = sink.times("slow")
        return share_of_ceiling(added(before, stage.ends()), times.service_s, times.seconds)

    with _scene(lab, implementation, "ordered", ORDERED, share) as once:
        yield once


@contextmanager
def _key_ordered_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    def rate(stage: Stage, process: Process, sink: Subscribers, delay_ms: int) -> float:
        events, delivered = lab.events(_KEY_EVENTS[delay_ms]), sink.counter(["slow"])
        stage.fill(events)
        # Without the first and the last tenth: neither is what goes on for hours.
        interval = drain(stage, process, delivered, events // 10, events * 9 // 10)
        stage.until("the last event arrives", process, lambda: delivered() >= events)
        return interval.per_s

    with _scene(lab, implementation, "key-ordered", KEY_ORDERED, rate) as once:
        yield once


@contextmanager
def _growth_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    """Each round has its own topic, so that it does not wait for the leftovers of the previous one."""
    names = [f"s{number}" for number in range(10)]

    def once() -> Values:
        with Subscribers(lab.new_folder("sink")) as sink:
            subscriptions = [Wanted(name, sink.url(name), "ordered", _IN_FLIGHT) for name in names]
            with (
                lab.stage(implementation, subscriptions, _BACKLOG_PARTITIONS, _BACKLOG_BYTES) as stage,
                stage.dispatcher() as process,
            ):
                delivered, warm_up = sink.counter(names), lab.events(500)
                stage.fill(warm_up)
                stage.until("the warm-up arrives", process, lambda: delivered() >= warm_up * len(names))
                time.sleep(_SETTLE_S)  # commits, and what the client gives back
                before_mb = process.resident_mb()
                for name in names:
                    sink.behave(name, "delay_s=0.5")
                with Memory(process) as memory:
                    stage.fill(lab.events(_BACKLOG))
                    time.sleep(lab.seconds(_BACKLOG_S))
                process.check()
                return {GROWTH: memory.most_mb - before_mb}

    yield once


def _pass(stage: Stage, process: Process, sink: Subscribers, name: str, events: int) -> None:
    """Store events and wait until they are delivered."""
    delivered = sink.counter([name])
    stage.fill(events)
    stage.until(f"{events} events arrive", process, lambda: delivered() >= events)


MEASURES = (
    Measure(
        "slow-ordered",
        "an ordered subscription whose subscriber takes 10 ms, then 100 ms",
        tuple(ORDERED.values()),
        _ordered_scene,
    ),
    Measure(
        "slow-key-ordered",
        "a key-ordered subscription with 256 in flight, 10 ms, then 100 ms",
        tuple(KEY_ORDERED.values()),
        _key_ordered_scene,
    ),
    Measure("memory", "80 MB before 10 subscriptions that take 0.5 s for each event", (GROWTH,), _growth_scene),
)
