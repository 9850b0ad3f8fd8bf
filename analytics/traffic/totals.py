"""Sums over types, sources and time for the summary of a run: one line for each channel and subscription. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from analytics.traffic.windows import KEYS, SCHEMA, Window, merge, table_of, windows_of

Line = tuple[str, str, str, str]  #: kind, namespace, channel, subscription


@dataclass(slots=True)
class Totals:
    """One merged window for each line, and the first and last second that it covers."""

    windows: dict[Line, Window] = field(default_factory=dict)
    spans: dict[Line, tuple[int, int]] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Add the rows of a batch, which all have one window size."""
        if not table.num_rows:
            return
        for row in table.group_by(list(KEYS[2:6])).aggregate([("start", "min"), ("start", "max")]).to_pylist():
            line: Line = (row["kind"], row["namespace"], row["channel"], row["subscription"])
            first, last = self.spans.get(line, (row["start_min"], row["start_max"]))
            self.spans[line] = (min(first, row["start_min"]), max(last, row["start_max"]))
        size = pc.max(table["size"]).as_py()
        flat = table.set_column(0, SCHEMA.field("start"), pa.array([0] * table.num_rows, pa.int64()))
        for name in ("type", "source"):
            place = SCHEMA.get_field_index(name)
            flat = flat.set_column(place, SCHEMA.field(name), pa.array([""] * table.num_rows, pa.string()))
        known = [window for window in self.windows.values() if window.size == size]
        self.windows = {
            (one.kind, one.namespace, one.channel, one.subscription): one
            for one in windows_of(merge([table_of(known), flat]))
        }

    def seconds(self, line: Line) -> int:
        """Seconds from the start of the line's first window to the end of its last."""
        first, last = self.spans[line]
        return last - first + self.windows[line].size
