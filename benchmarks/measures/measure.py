"""The one interface of all measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from benchmarks.figures import Row
from benchmarks.implementation import Implementation
from benchmarks.lab import Lab

Values = Mapping[Row, float]
Scene = Callable[[Lab, Implementation], AbstractContextManager[Callable[[], Values]]]


@dataclass(frozen=True, slots=True)
class Measure:
    """`scene` sets up what all rounds of one implementation share and gives the function that measures one round.

    A round returns a value for each of `rows`; what it cannot measure it raises. `once`: one round unless more are
    asked for, because it is long and its figure steady.
    """

    name: str
    about: str
    rows: tuple[Row, ...]
    scene: Scene
    once: bool = False
