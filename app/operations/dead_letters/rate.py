"""Limits the rate of a redrive: evenly spaced, without bursts to catch up. Pure; the caller passes the time."""

from __future__ import annotations

import re

from knative.errors import UsageError

_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?:/(?P<unit>s|m|h))?", re.ASCII)
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_rate(text: str, option: str = "--rate") -> float | None:
    """Returns letters per second of `10`, `10/s`, `600/m` or `9/h`; None for "". Raises UsageError naming `option`."""
    if not text:
        return None
    match = _RATE.fullmatch(text.strip())
    per_s = float(match["number"]) / _UNITS_S[match["unit"] or "s"] if match else 0.0
    if per_s <= 0:
        raise UsageError(f"{option} {text!r} is not a valid rate.", "Write N/s, N/m or N/h, such as 20/s.")
    return per_s


class RateLimiter:
    """Hands out times that are `1 / rate` apart; None = no limit."""

    __slots__ = ("_apart_s", "_next_s")

    def __init__(self, rate_per_s: float | None) -> None:
        self._apart_s = 0.0 if rate_per_s is None else 1.0 / rate_per_s
        self._next_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Take the next time and return how long to wait for it. Unused times are lost, so there are no bursts."""
        at_s = max(now_s, self._next_s)
        self._next_s = at_s + self._apart_s
        return at_s - now_s
