"""Sums the windows of the traffic job over a span. Separate from `reading` because importing Arrow takes a while.

An event that is both `stored` and `accepted` counts once.
"""

from __future__ import annotations

from pathlib import Path

from analytics.topology.model.document import Window
from analytics.topology.model.sums import Summing, Sums
from analytics.traffic.read import read_windows
from analytics.traffic.windows import HOUR_S, MINUTE_S, SETTLED, arrivals

_MINUTES_MAX_S = 6 * HOUR_S  #: longer spans are read in hours


def read_tables(folder: Path, since: float, until: float) -> tuple[Sums, Window | None]:
    """Sums of the windows that begin in [since, until), and the span that they cover; None = there are no windows.

    Raises PenstockError when there are no tables.
    """
    size = MINUTE_S if until - since <= _MINUTES_MAX_S else HOUR_S
    windows = read_windows(folder, size, since, until)
    summing = Summing()
    for one in [*arrivals(windows), *(one for one in windows if one.kind == SETTLED)]:
        summing.row(one)
    if not windows:
        return summing.sums(), None
    start = min(one.start for one in windows)
    end = max(one.start + one.size for one in windows)
    return summing.sums(), Window(float(start), min(float(end), until))
