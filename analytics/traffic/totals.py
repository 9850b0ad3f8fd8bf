"""Sums of a batch: by topic and by day for the job, by channel and subscription for its summary. Pure.

The rows of a batch are an Arrow table: windows with the columns `topic`, `newest`, `folded` and `repeats`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics.traffic.windows import COUNTS, DAY_S, KEYS, MINUTE_S, SCHEMA, Window, sum_over, windows_of
from knative.traffic.latency_sketch import merge

Line = tuple[str, ...]  #: kind, namespace, channel, subscription
_LINE = KEYS[2:6]


def not_empty(rows: pa.Table) -> pa.Table:
    """Returns the rows with a count; those of deltas that were counted before have none."""
    return rows.filter(pc.greater(pc.max_element_wise(*(rows[name] for name in COUNTS)), 0))


def by_topic(rows: pa.Table) -> list[dict[str, Any]]:
    """Returns the sums of events, late, folded and repeats by topic and kind, and the newest second."""
    sums = ("events", "late", "folded", "repeats")
    table = rows.group_by(["topic", "kind"]).aggregate([*((name, "sum") for name in sums), ("newest", "max")])
    names = {**{f"{name}_sum": name for name in sums}, "newest_max": "newest"}
    totals: list[dict[str, Any]] = table.rename_columns(names).to_pylist()
    return totals


def by_day(rows: pa.Table) -> dict[int, int]:
    """Returns the first second of each day that has windows, and the events of all kinds in it."""
    some = not_empty(rows)
    day = pc.multiply(pc.divide(some["start"], DAY_S), DAY_S)
    table = pa.table({"day": day, "events": some["events"]}).group_by("day").aggregate([("events", "sum")])
    return {row["day"]: row["events_sum"] for row in table.to_pylist()}


@dataclass(slots=True)
class Totals:
    """Adds up batches: for each line, one window from the first minute to the end of the last."""

    windows: dict[Line, Window] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Add the rows of a batch."""
        some = not_empty(rows)
        spans = some.group_by(list(_LINE)).aggregate([("start", "min"), ("start", "max")]).to_pylist()
        bounds = {tuple(row[name] for name in _LINE): (row["start_min"], row["start_max"]) for row in spans}
        for window in windows_of(sum_over([some.select(SCHEMA.names)], ("start", "size", "type", "source"))):
            line = tuple(getattr(window, name) for name in _LINE)
            first, last = bounds[line]
            before = self.windows.get(line, Window(first, 0, *line))
            start, end = min(before.start, first), max(before.start + before.size, last + MINUTE_S)
            latency = dict(before.latency)
            merge(latency, window.latency)
            self.windows[line] = replace(
                window,
                start=start,
                size=end - start,
                counts=before.counts + window.counts,
                late=before.late + window.late,
                latency=latency,
            )
