"""The way in: POST to 202, events of 1 KiB as fast as answers come, with TLS and without, and large ones at a steady
rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import Implementation, make_tls
from benchmarks.lab import Lab, Memory, Stage
from benchmarks.measures.measure import Measure, Values
from tests.support.processes import Failed

CPU = Row("ingress, 64 connections: CPU per event", "us", 40)
RATE = Row("ingress, 64 connections: rate", "events/s", None, HIGHER, 0)
START = Row("receiver: CPU from start to ready", "s", 1.2, digits=2)
MEMORY = Row("receiver under load: RSS", "MB", 70)
TLS_CPU = Row("ingress over TLS, 64 connections: CPU per event", "us")
TLS_RATIO = Row("ingress over TLS, 64 connections: CPU per event by that without", "times", 1.4, digits=2)
LARGE = Row("ingress, 2,000/s of 20 kB: cores", "cores", 0.35, digits=2)

_EVENTS, _WARM_UP = 32_000, 6_000
_LARGE_BYTES, _LARGE_PER_S, _LARGE_S = 20_000, 2000, 4.0


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    with lab.stage(implementation) as stage:

        def once() -> Values:
            with stage.receiver() as (process, start_cpu_s):
                stage.load(process, events=lab.events(_WARM_UP))
                events = lab.events(_EVENTS)
                with Memory(process) as memory:
                    before_s = process.cpu_s()
                    result = stage.load_result(process, events=events)
                    cpu_s = process.cpu_s() - before_s
                if result["accepted"] != events:
                    raise Failed(f"not every event was accepted: {result}")
            return {
                CPU: 1e6 * cpu_s / events,
                RATE: events / result["seconds"],
                START: start_cpu_s,
                MEMORY: memory.most_mb,
            }

        yield once


@contextmanager
def _tls_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    """Connections stay open. Each is opened once in what is measured, which is some percent of it."""
    with (
        lab.stage(implementation) as plain,
        lab.stage(implementation, tls=make_tls(lab.new_folder("certificates"))) as secured,
    ):

        def once() -> Values:
            plain_us, secured_us = _cpu_us(lab, plain), _cpu_us(lab, secured)
            return {TLS_CPU: secured_us, TLS_RATIO: secured_us / plain_us}

        yield once


def _cpu_us(lab: Lab, stage: Stage) -> float:
    """Returns the CPU time for each event that a receiver takes."""
    with stage.receiver() as (process, _):
        stage.load(process, events=lab.events(_WARM_UP))
        events, before_s = lab.events(_EVENTS), process.cpu_s()
        accepted = stage.load(process, events=events)
        cpu_s = process.cpu_s() - before_s
    if accepted != events:
        raise Failed(f"of {events} events {accepted} were accepted")
    return 1e6 * cpu_s / events


@contextmanager
def _large_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    with lab.stage(implementation, body_bytes=_LARGE_BYTES) as stage:

        def once() -> Values:
            with stage.receiver() as (process, _):
                stage.load(process, events=lab.events(2000), rate=_LARGE_PER_S)
                events = round(_LARGE_PER_S * lab.seconds(_LARGE_S))
                before_s, begun_s = process.cpu_s(), time.monotonic()
                result = stage.load_result(process, events=events, rate=_LARGE_PER_S)
                cpu_s = process.cpu_s() - before_s
                if result["accepted"] != events:
                    raise Failed(f"not every event was accepted: {result} in {time.monotonic() - begun_s:.1f} s")
            # A machine that is too busy for the rate gets more seconds, not fewer events: count by event.
            return {LARGE: cpu_s / events * _LARGE_PER_S}

        yield once


MEASURES = (
    Measure("ingress", "events of 1 KiB in a closed loop of 64 connections", (CPU, RATE, START, MEMORY), _scene),
    Measure("ingress-tls", "the same over TLS, and without it for comparison", (TLS_CPU, TLS_RATIO), _tls_scene),
    Measure("ingress-large", "2,000 events a second of 20 kB", (LARGE,), _large_scene),
)
