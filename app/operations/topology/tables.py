"""Sums the windows of the traffic job over a span. Separate from `reading` because importing Arrow takes a while.

An event that is both `stored` and `accepted` counts once.
"""

from __future__ import annotations

from analytics.topology.model.document import Window
from analytics.topology.model.sums import Summing, Sums
from analytics.traffic.dataset import Dataset, Folder
from analytics.traffic.read import read_sums
from analytics.traffic.windows import HOUR_S, MINUTE_S, SETTLED, arrivals

_MINUTES_MAX_S = 6 * HOUR_S  #: longer spans are read in hours


def read_tables(folder: Folder, since: float, until: float) -> tuple[Sums, Window | None]:
    """Sums of the windows that begin in [since, until), and the span that they cover; None = there are no windows.

    Raises PenstockError when there are no tables.
    """
    size = MINUTE_S if until - since <= _MINUTES_MAX_S else HOUR_S
    sums, span = read_sums(folder, size, since, until)
    summing = Summing()
    for window in [*arrivals(sums), *(window for window in sums if window.kind == SETTLED)]:
        summing.row(window)
    return summing.sums(), None if span is None else Window(float(span[0]), min(float(span[1]), until))


def newest_of(folder: Folder) -> float:
    """The Unix second after the newest record that is counted in the tables; 0 = none is."""
    last = Dataset(folder).last()
    return 0.0 if last is None or not last.newest else float(max(last.newest.values()) + 1)
