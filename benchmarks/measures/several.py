"""Several processes by one command: the way in at full rate, by one process and by two in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import Implementation
from benchmarks.lab import Lab, Stage
from benchmarks.measures.measure import Measure, Values
from tests.support.proc import children, pss_mb, tree
from tests.support.processes import Failed

ALONE_CPU = Row("ingress, 1 process: CPU per event", "us")
CPU = Row("ingress, 2 processes: CPU per event", "us")
CPU_RATIO = Row("ingress, 2 processes: CPU per event by that of one", "times", 1.0, digits=2)
RATE_RATIO = Row("ingress, 2 processes: rate by that of one", "times", 1.6, HIGHER, 2)
MEMORY = Row("ingress, 2 processes under load: PSS of the second", "MB", 35)

_EVENTS, _WARM_UP, _CONNECTIONS = 64_000, 12_000, 256


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    with lab.stage(implementation) as alone, lab.stage(implementation, processes=2) as several:

        def once() -> Values:
            alone_us, alone_per_s, _ = _measured(lab, alone)
            us, per_s, second_mb = _measured(lab, several)
            return {
                ALONE_CPU: alone_us,
                CPU: us,
                CPU_RATIO: us / alone_us,
                RATE_RATIO: per_s / alone_per_s,
                MEMORY: second_mb,
            }

        yield once


def _measured(lab: Lab, stage: Stage) -> tuple[float, float, float]:
    """Returns CPU microseconds of all processes for an event, events a second, and MB of the last process."""
    with stage.receiver() as (process, _):
        pid = process.process.pid
        stage.load(process, events=lab.events(_WARM_UP), connections=_CONNECTIONS)
        events, before_s = lab.events(_EVENTS), _cpu_s(pid)
        result = stage.load_result(process, events=events, connections=_CONNECTIONS)
        cpu_s, last_mb = _cpu_s(pid) - before_s, pss_mb((children(pid) or [pid])[-1])
    if result["accepted"] != events:
        raise Failed(f"not every event was accepted: {result}")
    return 1e6 * cpu_s / events, events / result["seconds"], last_mb


def _cpu_s(pid: int) -> float:
    return sum(stat.cpu_s for stat in tree(pid).values())


MEASURES = (
    Measure(
        "processes",
        "events of 1 KiB from 256 connections, for one process and for two",
        (ALONE_CPU, CPU, CPU_RATIO, RATE_RATIO, MEMORY),
        _scene,
    ),
)
