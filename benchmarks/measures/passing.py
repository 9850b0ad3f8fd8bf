"""Events that pass: in and out at a steady rate with their delays, and ten subscriptions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import Row
from benchmarks.implementation import Implementation, Wanted
from benchmarks.lab import Lab, Memory, drain
from benchmarks.measures.measure import Measure, Values
from benchmarks.subscribers import Subscribers
from tests.support.ledger.report import percentile
from tests.support.processes import Failed

P50 = Row("end to end at 500/s: p50", "ms", 1.5, digits=2)
P99 = Row("end to end at 500/s: p99", "ms", 15, digits=2)
IN = Row("at 500/s: CPU per event in", "us", 200, digits=0)
OUT = Row("at 500/s: CPU per event out", "us", 200, digits=0)
TEN = Row("10 subscriptions: CPU per delivery", "us", 45)
TEN_MEMORY = Row("10 subscriptions under load: RSS", "MB", 120)

_PER_S, _WARM_UP_S, _SECONDS = 500, 1.5, 6.0
_TEN_EVENTS, _TEN_WARM_UP = 6_000, 1_000


@contextmanager
def _steady_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted("steady", sink.url("steady"))]) as stage,
    ):

        def once() -> Values:
            with stage.dispatcher() as dispatcher, stage.receiver() as (receiver, _):
                delivered, first = sink.counter(["steady"]), round(_PER_S * _WARM_UP_S)
                stage.load(receiver, events=first, rate=_PER_S)
                stage.until("the warm-up arrives", dispatcher, lambda: delivered() >= first)
                sink.times("steady")
                events = round(_PER_S * lab.seconds(_SECONDS))
                in_s, out_s, total = receiver.cpu_s(), dispatcher.cpu_s(), first + events
                accepted = stage.load(receiver, events=events, rate=_PER_S, stamp=True)
                stage.until("the last event arrives", dispatcher, lambda: delivered() >= total)
                in_s, out_s = receiver.cpu_s() - in_s, dispatcher.cpu_s() - out_s
                delays_s = sink.times("steady").delays_s
            if accepted != events or len(delays_s) < events:
                raise Failed(f"of {events} events {accepted} were accepted and {len(delays_s)} arrived")
            return {
                P50: 1000 * percentile(delays_s, 50),
                P99: 1000 * percentile(delays_s, 99),
                IN: 1e6 * in_s / events,
                OUT: 1e6 * out_s / events,
            }

        yield once


@contextmanager
def _ten_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    names = [f"ten-{number}" for number in range(10)]
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted(name, sink.url(name)) for name in names]) as stage,
    ):

        def once() -> Values:
            warm_up, events = lab.events(_TEN_WARM_UP), lab.events(_TEN_EVENTS)
            stage.fill(warm_up + events)
            delivered = sink.counter(names)
            with stage.dispatcher() as process, Memory(process) as memory:
                total = (warm_up + events) * len(names)
                interval = drain(stage, process, delivered, warm_up * len(names), total)
            return {TEN: interval.cpu_us, TEN_MEMORY: memory.most_mb}

        yield once


MEASURES = (
    Measure("end-to-end", "500 events a second, in and out", (P50, P99, IN, OUT), _steady_scene),
    Measure("ten", "a backlog drained by 10 subscriptions of one process", (TEN, TEN_MEMORY), _ten_scene),
)
