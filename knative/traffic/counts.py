"""What traffic is counted as: one value of a few numbers that adds up, and the names of these numbers.

Deltas, windows, tables, pages and the Spark jobs take the names from here. A further counter is a field of `Counts`,
and a line in `counters` where events are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter


@dataclass(slots=True)
class Counts:
    """Events, and what became of them. Add values instead of changing one; only the hot path counts in place."""

    events: int = 0
    bytes: int = 0  #: of data
    delivered: int = 0
    retried: int = 0  #: attempts beyond the first
    dead: int = 0  #: dead-lettered
    filtered: int = 0
    ignored: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, _values(self), _values(other)))

    @property
    def settled(self) -> int:
        """The events that a subscription is done with."""
        return sum(getattr(self, name) for name in SETTLED)

    def values(self) -> tuple[int, ...]:
        """Returns the numbers in the order of NAMES."""
        return _values(self)

    def nonzero(self) -> dict[str, int]:
        """Returns the numbers that are not 0, by name."""
        return {name: number for name, number in zip(NAMES, _values(self), strict=True) if number}


NAMES = tuple(field.name for field in fields(Counts))
#: What only subscriptions have. Channels have events and bytes.
OF_SUBSCRIPTIONS = NAMES[2:]
#: The ways in which an event is settled: each settled event counts as one of them.
SETTLED = ("delivered", "dead", "filtered", "ignored")

_values: Callable[[Counts], tuple[int, ...]] = attrgetter(*NAMES)


def column(name: str) -> str:
    """Returns the name of a number in tables and in the output of commands."""
    return "dead_lettered" if name == "dead" else name


def read(number: Callable[[str], int]) -> Counts:
    """Returns the counts of what `number` returns for each name."""
    return Counts(*map(number, NAMES))
