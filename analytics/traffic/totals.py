"""Sums over types, sources and time for the summary of a run: one line for each channel and subscription. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analytics.traffic.windows import KEYS, MINUTE_S, Window
from knative.traffic.counts import column, read
from knative.traffic.latency_sketch import merge

LINE = KEYS[2:6]  #: kind, namespace, channel, subscription
Line = tuple[str, str, str, str]


@dataclass(slots=True)
class Totals:
    """For each line, one window from the first minute to the end of the last."""

    windows: dict[Line, Window] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of `frames.batch_lines`."""
        if not row["windows"]:
            return
        line: Line = (row["kind"], row["namespace"], row["channel"], row["subscription"])
        before = self.windows.get(line, Window(row["first"], 0, *line))
        start = min(before.start, row["first"])
        end = max(before.start + before.size, row["last"] + MINUTE_S)
        latency = dict(before.latency)
        merge(latency, {entry["bucket"]: entry["count"] for entry in row["latency"]})
        counts = before.counts + read(lambda name: row[column(name)])
        self.windows[line] = replace(
            before, start=start, size=end - start, counts=counts, late=before.late + row["late"], latency=latency
        )
