"""The results of a measurement: rows, their figures over all rounds, and their JSON. Pure.

A row that could not be measured stays in the results, with the reason, and counts as not reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LOWER, HIGHER = "lower", "higher"
NOT_OFFERED = "not offered"  #: the error of rows that an implementation does not have


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `target` None = only shown; `digits` behind the point; `better` LOWER or HIGHER."""

    name: str
    unit: str
    target: float | None = None
    better: str = LOWER
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A row and its values, one for each round that could be measured; `error` says why one could not.

    `busy_cores`: how many cores the machine used just before the measure; None where nobody looked."""

    row: Row
    values: tuple[float, ...]
    error: str | None = None
    busy_cores: float | None = None

    @property
    def min(self) -> float | None:
        """The smallest value; None when there is none."""
        return round(min(self.values), self.row.digits) if self.values else None

    @property
    def median(self) -> float | None:
        """The middle value; None when there is none."""
        return round(statistics.median(self.values), self.row.digits) if self.values else None

    @property
    def max(self) -> float | None:
        """The largest value; None when there is none."""
        return round(max(self.values), self.row.digits) if self.values else None

    @property
    def reached(self) -> bool | None:
        """Whether the median is as good as the target; None without a target. Not when a round failed."""
        if self.row.target is None:
            return None if not self.error else False
        if self.median is None or self.error:
            return False
        return self.median <= self.row.target if self.row.better == LOWER else self.median >= self.row.target

    def ratio(self, other: Figure) -> float | None:
        """Returns our median by the other's; None when either is missing or the other's is 0."""
        return _divide(self.median, other.median)

    def best_ratio(self, other: Figure) -> float | None:
        """Returns the same of the best rounds: what a busy machine disturbs least."""
        if self.row.better == LOWER:
            return _divide(self.min, other.min)
        return _divide(self.max, other.max)


def _divide(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else round(ours / theirs, 2)


def spread(text: Sequence[float | None], digits: int) -> str:
    """Returns `min / median / max` for people; "-" for what is missing."""
    return " / ".join("-" if value is None else f"{value:,.{digits}f}" for value in text)


def as_json(ours: Sequence[Figure], others: Sequence[Figure] | None = None) -> list[dict[str, Any]]:
    """Returns an object for each row; `error` only where there is one, `beside` only when another implementation ran,
    `busy_cores` where it is known."""
    rows = []
    for number, figure in enumerate(ours):
        row = figure.row
        content: dict[str, Any] = {
            "name": row.name,
            "unit": row.unit,
            "min": figure.min,
            "median": figure.median,
            "max": figure.max,
            "target": row.target,
            "better": row.better,
        }
        if figure.busy_cores is not None:
            content["busy_cores"] = round(figure.busy_cores, 2)
        if figure.error:
            content["error"] = figure.error
        if others is not None:
            other = others[number]
            content["beside"] = {"min": other.min, "median": other.median, "max": other.max}
            content["beside"] |= {"ratio": figure.ratio(other), "best_ratio": figure.best_ratio(other)}
            if other.error:
                content["beside"]["error"] = other.error
        rows.append(content)
    return rows
