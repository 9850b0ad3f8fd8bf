"""The way out: a backlog drained to one subscriber that answers at once, in each order of delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import Implementation, Wanted
from benchmarks.lab import Lab, Memory, drain
from benchmarks.measures.measure import Measure, Values
from benchmarks.subscribers import Subscribers
from tests.support.resources import ORDERS

CPU = {order: Row(f"dispatch, 1 subscription, {order}: CPU per delivery", "us", 40) for order in ORDERS}
RATE = {
    order: Row(
        f"dispatch, 1 subscription, {order}: rate", "events/s", 15_000 if order == "ordered" else None, HIGHER, 0
    )
    for order in ORDERS
}
MEMORY = Row("dispatcher under load, 1 subscription: RSS", "MB", 90)
START = Row("dispatcher: CPU from start to first delivery", "s", 1.2, digits=2)

_EVENTS, _WARM_UP, _IN_FLIGHT = 32_000, 8_000, 256


@contextmanager
def _scene(lab: Lab, implementation: Implementation, order: str) -> Iterator[Callable[[], Values]]:
    with Subscribers(lab.new_folder("sink")) as sink:
        subscription = Wanted(order, sink.url(order), order, _IN_FLIGHT)
        with lab.stage(implementation, [subscription]) as stage:

            def once() -> Values:
                warm_up, events = lab.events(_WARM_UP), lab.events(_EVENTS)
                stage.fill(warm_up + events)
                delivered = sink.counter([order])
                with stage.dispatcher() as process:
                    stage.until("the first event arrives", process, lambda: delivered() > 0, poll_s=0.01)
                    start_cpu_s = process.cpu_s()
                    with Memory(process) as memory:
                        interval = drain(stage, process, delivered, warm_up, warm_up + events)
                values = {CPU[order]: interval.cpu_us, RATE[order]: interval.per_s}
                if order == "ordered":
                    values |= {MEMORY: memory.most_mb, START: start_cpu_s}
                return values

            yield once


MEASURES = tuple(
    Measure(
        f"dispatch-{order}",
        f"a backlog, one {order} subscription, a subscriber that answers at once",
        (CPU[order], RATE[order], *((MEMORY, START) if order == "ordered" else ())),
        partial(_scene, order=order),
    )
    for order in ORDERS
)
