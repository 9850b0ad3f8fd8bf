"""Filters of Triggers: judging an event, and compiling those of many Triggers. Only Penstock has this measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import Row
from benchmarks.implementation import Implementation
from benchmarks.lab import Lab
from benchmarks.measures.analytics import last_line, own, run_program
from benchmarks.measures.measure import Measure, Values

EXACT = Row("filter, exact on 5 attributes: CPU per event", "us", 2, digits=2)
CESQL = Row("filter, CESQL of 3 terms: CPU per event", "us", 6, digits=2)
ATTRIBUTES = Row("filter, attributes of a record: CPU per event", "us", digits=2)
COMPILE = Row("filters of 10,000 triggers compiled", "CPU s", 5, digits=2)

_EVENTS, _TRIGGERS = 200_000, 10_000


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation, "filters")

    def once() -> Values:
        events = str(lab.events(_EVENTS))
        figures = last_line(run_program("-m", "benchmarks.filters", "--events", events, "--triggers", str(_TRIGGERS)))
        return {
            EXACT: figures["exact_us"],
            CESQL: figures["cesql_us"],
            ATTRIBUTES: figures["attributes_us"],
            COMPILE: figures["compile_s"],
        }

    yield once


MEASURES = (Measure("filters", "filters judge events, and are compiled", (EXACT, CESQL, ATTRIBUTES, COMPILE), _scene),)
