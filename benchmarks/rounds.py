"""Rounds: each measure a few times, implementations by turns, and nothing is left out when something fails.

    round 1: ours, theirs    round 2: theirs, ours    round 3: ours, theirs

With turns, both run on the machine in the same state; alternating the order cancels a drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from benchmarks.figures import NOT_OFFERED, Figure, Row
from benchmarks.implementation import Implementation, NotOffered
from benchmarks.lab import Lab
from benchmarks.measures.measure import Measure, Values

Say = Callable[[str], None]
Busy = Callable[[], float | None]


class _Runner:
    """One measure of one implementation: its scene is set up at its first round."""

    def __init__(self, measure: Measure, lab: Lab, implementation: Implementation, stack: ExitStack, say: Say) -> None:
        self._measure, self._lab, self._implementation = measure, lab, implementation
        self._stack, self._say = stack, say
        self._once: Callable[[], Values] | None = None
        self._values: dict[Row, list[float]] = {row: [] for row in measure.rows}
        self._error: str | None = None

    def round(self) -> None:
        """Measure once more; an error ends the measure for this implementation, and is reported."""
        if self._error is not None:
            return
        try:
            if self._once is None:
                self._once = self._stack.enter_context(self._measure.scene(self._lab, self._implementation))
            values = self._once()
            for row in self._measure.rows:
                self._values[row].append(values[row])
        except NotOffered:
            self._error = NOT_OFFERED
        except Exception as error:  # any error is reported, and the other measures continue
            self._fail(error)

    def figures(self, busy_cores: float | None) -> list[Figure]:
        """Returns what was found, one figure for each row. `busy_cores`: of the machine, before the measure."""
        return [Figure(row, tuple(self._values[row]), self._error, busy_cores) for row in self._measure.rows]

    def _fail(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        self._error = text.partition("\n")[0]
        self._say(f"{self._measure.name} of {self._implementation.name} failed: {text}")


def run(
    measures: Iterable[Measure],
    lab: Lab,
    implementations: Sequence[Implementation],
    rounds: int,
    say: Say,
    asked: bool = False,
    busy: Busy = lambda: None,
) -> list[list[Figure]]:
    """Returns the figures of each implementation, in the order of measures and rows. `asked`: this many rounds even of
    `once`. `busy`: how many cores the machine uses, asked before each measure."""
    results: list[list[Figure]] = [[] for _ in implementations]
    for measure in measures:
        busy_cores = busy()
        load = "" if busy_cores is None else f" ({busy_cores:.1f} cores are busy)"
        say(f"measuring {measure.name}: {measure.about}{load}")
        runners: list[_Runner] = []
        try:
            with ExitStack() as stack:
                runners = [_Runner(measure, lab, implementation, stack, say) for implementation in implementations]
                for number in range(1 if measure.once and not asked else rounds):
                    for runner in runners if number % 2 == 0 else reversed(runners):
                        runner.round()
        except Exception as error:  # tearing down: the figures stand
            say(f"after {measure.name}: {error}")
        for figures, runner in zip(results, runners, strict=True):
            figures += runner.figures(busy_cores)
    return results
