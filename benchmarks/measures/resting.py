"""At rest: what a worker without events to take or to deliver costs in memory and CPU, and its start with many
subscriptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import Row
from benchmarks.implementation import Implementation, Process, Wanted
from benchmarks.lab import Lab, Stage
from benchmarks.measures.measure import Measure, Values
from benchmarks.subscribers import Subscribers

RECEIVER = Row("receiver at rest: RSS", "MB")
ONE = Row("dispatcher at rest, 1 subscription: RSS", "MB")
MANY = Row("dispatcher at rest, 100 subscriptions: RSS", "MB")
MANY_CORES = Row("dispatcher at rest, 100 subscriptions: cores", "cores", digits=3)
MANY_START = Row("dispatcher, 100 subscriptions: CPU from start until each has delivered", "s", digits=2)

_MANY, _REST_S = 100, 5.0


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    names = [f"rest-{number}" for number in range(_MANY)]
    with (
        Subscribers(lab.new_folder("sink")) as sink,
        lab.stage(implementation, [Wanted(names[0], sink.url(names[0]))]) as stage,
        lab.stage(implementation, [Wanted(name, sink.url(name)) for name in names]) as many,
    ):

        def once() -> Values:
            with stage.receiver() as (process, _):
                receiver_mb, _ = _at_rest(lab, process)
            with _ready(stage, sink, names[:1]) as process:
                one_mb, _ = _at_rest(lab, process)
            with _ready(many, sink, names) as process:
                start_s = process.cpu_s()
                many_mb, cores = _at_rest(lab, process)
            return {RECEIVER: receiver_mb, ONE: one_mb, MANY: many_mb, MANY_CORES: cores, MANY_START: start_s}

        yield once


@contextmanager
def _ready(stage: Stage, sink: Subscribers, names: list[str]) -> Iterator[Process]:
    """Yields a dispatcher that has delivered an event to each of `names`."""
    stage.fill(1)
    delivered = sink.counter(names)
    with stage.dispatcher() as process:
        stage.until("each has an event", process, lambda: delivered() >= len(names))
        yield process


def _at_rest(lab: Lab, process: Process) -> tuple[float, float]:
    """Returns its memory in MB at the end of some seconds without events, and how much of a core it used in them."""
    cpu_s, begun_s = process.cpu_s(), time.monotonic()
    time.sleep(lab.seconds(_REST_S))
    process.check()
    return process.resident_mb(), (process.cpu_s() - cpu_s) / (time.monotonic() - begun_s)


MEASURES = (
    Measure("rest", "workers without events", (RECEIVER, ONE, MANY, MANY_CORES, MANY_START), _scene, once=True),
)
