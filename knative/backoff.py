"""Exponential backoff: waits that double from try to try, up to a longest one. The caller waits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count


def exponential_s(n: int, first_s: float, longest_s: float) -> float:
    """Returns the seconds of wait `n` (0, 1, ...)."""
    # The exponent is limited first: 2.0 ** 1024 overflows, and `n` has no upper limit.
    return min(first_s * math.ldexp(1.0, min(n, 1000)), longest_s)


def doubling_s(first_s: float, longest_s: float) -> Iterator[float]:
    """Yields all waits, one after the other, without end. To begin with the first wait again, make another iterator."""
    return (exponential_s(n, first_s, longest_s) for n in count())
