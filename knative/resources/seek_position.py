"""Where a seek moves offsets to: the ends of the log, a time, or some records forward or back. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from knative.resources.fields import START_ANNOTATION, start_of
from knative.resources.values import StartPosition, StartTime

_SHIFT = re.compile(r"[+-][0-9]{1,18}", re.ASCII)
_START = re.compile(START_ANNOTATION.pattern, re.ASCII)
HINT = "write earliest, latest, a time such as 2026-01-31T08:00:00Z, or +N or -N records"


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records forward (positive) or back from the committed offset."""

    records: int


SeekPosition = StartPosition | Shift


def seek_position(text: str) -> SeekPosition:
    """Returns the value of a text. Raises ValueError with a sentence for people."""
    if _SHIFT.fullmatch(text):
        return Shift(int(text))
    problem = ValueError(f"{text[:64]!r} is not a valid position")
    if not _START.fullmatch(text):
        raise problem
    try:
        return start_of(text)
    except ValueError:  # such as the 31st of February
        raise problem from None


def in_future(position: SeekPosition, now: float) -> bool:
    """Returns whether it is a time after `now` (Unix seconds)."""
    return isinstance(position, StartTime) and position.unix_ms > now * 1000


def shifted(by: Shift, old: int, low: int, high: int) -> int:
    """Returns the new offset in a log from `low` to `high`. `old` -1: nothing is committed, so delivery is at `low`."""
    return max(low, min(high, (low if old < 0 else old) + by.records))
