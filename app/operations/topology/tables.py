"""Sums the windows of the traffic job over a span. Separate from `reading` because importing Arrow takes a while.

An event that is both `stored` and `accepted` counts once.
"""

from __future__ import annotations

from analytics.topology.model.document import Window
from analytics.topology.model.sums import Summing, Sums
from analytics.traffic.dataset import Dataset, Folder, day_start
from analytics.traffic.read import read_sums
from analytics.traffic.windows import DAY_S, size_for


def read_tables(folder: Folder, since: float, until: float) -> tuple[Sums, Window | None]:
    """Returns sums of the windows that begin in [since, until), and the span that they cover; None = no windows.

    Raises PenstockError when there are no tables.
    """
    sums, span = read_sums(folder, size_for(since, until), since, until)
    summing = Summing()
    for window in sums:
        summing.row(window)
    return summing.sums(), None if span is None else Window(float(span[0]), min(float(span[1]), until))


def reach_of(folder: Folder, since: float, until: float) -> Window:
    """Returns the part of [since, until) of which the tables know all: from the window of `since`, if there are older
    ones, to the newest record. It begins at `until` if there are none, and ends at 0 if nothing is counted."""
    last = Dataset(folder).last()
    if last is None or not last.newest or not last.days:
        return Window(until, 0.0)
    size = size_for(since, until)
    start = int(since) // size * size
    day = day_start(min(last.days))  # has rows, or it would not be there
    older = day < start // DAY_S * DAY_S or read_sums(folder, size, day, start)[1] is not None
    return Window(float(start) if older else until, min(float(max(last.newest.values()) + 1), until))
