"""A check: its name, its question, and answers from facts: what was found, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from knative.errors import PenstockError
from tables.status_table import FRESH_S

START_CONTROLLER = "start the controller of this installation"
CLOCK_S = 2.0  #: two clocks that differ by more are worth a warning


class Level(StrEnum):
    """How bad an answer is."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a check's question. `hint`: what to do; "" = nothing."""

    level: Level
    text: str
    hint: str = ""


def ok(text: str) -> Answer:
    """Returns the answer that all is well."""
    return Answer(Level.OK, text)


def skipped(text: str) -> Answer:
    """It was not checked."""
    return Answer(Level.SKIPPED, text)


def warning(text: str, hint: str) -> Answer:
    """Returns the answer that something works, and may fail later."""
    return Answer(Level.WARNING, text, hint)


def problem(text: str, hint: str) -> Answer:
    """Returns the answer that something does not work, or will not."""
    return Answer(Level.PROBLEM, text, hint)


def failure(error: PenstockError) -> Answer:
    """Returns the answer for an error that kept a check from being made."""
    return problem(error.what.replace("\n", " "), error.hint)


def clock(whose: str, ahead_s: float) -> Answer:
    """Compares another clock. `ahead_s`: how far it is ahead of this machine's; negative = behind."""
    behind = "behind" if ahead_s < 0 else "ahead of"
    text = f"{whose} is {abs(ahead_s):.1f} s {behind} this machine's"
    if abs(ahead_s) <= CLOCK_S:
        return ok(f"{whose} is this machine's, within {CLOCK_S:g} s")
    hint = f"synchronize both clocks, as with NTP: what a worker reported {FRESH_S:g} s ago does not count"
    return (problem if abs(ahead_s) > FRESH_S else warning)(text, hint)


def some(names: Sequence[str], most: int = 3) -> str:
    """Returns the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
