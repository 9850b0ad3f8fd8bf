"""Turns Spark's sums of one batch into windows, facts and the next state: the step between `frames` and `store`. Pure.

    sums of Spark + state before --> windows (late ones counted) + {"counters": ..., "newest": ..., "seen": ...}

An event is late if its window should have ended LATENESS_S before the newest record that its topic had in earlier
batches. Late events count in their own window all the same. A clock that is ahead cannot move that mark beyond now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from analytics.traffic.seen import Seen
from analytics.traffic.windows import MINUTE_S, SETTLED, STORED, Window, merge, table_of
from knative.traffic.counts import Counts, read

LATENESS_S = 600

Owner = tuple[str, str]  #: namespace and name of a channel


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one batch."""

    table: pa.Table
    facts: dict[str, Any]

    @property
    def counters(self) -> dict[str, int]:
        """Records, late, repeated, unreadable and folded records of this batch."""
        found: dict[str, int] = self.facts["counters"]
        return found


def of_records(sums: pa.Table, owners: Mapping[str, Owner], state: Mapping[str, Any], now_s: float) -> Batch:
    """From `frames.record_sums`; `owners`: topic -> channel."""
    newest: dict[str, int] = dict(state.get("newest", {}))
    before, windows, folded = dict(newest), [], 0
    for row in sums.to_pylist():
        topic = row["topic"]
        if topic not in owners:  # of a channel that was deleted since: its records have no owner any more
            continue
        namespace, channel = owners[topic]
        newest[topic] = max(newest.get(topic, 0), min(row["newest"], int(now_s)))
        folded += row["folded"]
        late = row["events"] if _is_late(row["start"], before.get(topic)) else 0
        windows.append(
            Window(
                row["start"], MINUTE_S, STORED, namespace, channel, "", row["type"], row["source"],
                counts=Counts(row["events"], row["bytes"]), late=late,
            )
        )  # fmt: skip
    return Batch(
        merge([table_of(windows)]),
        {
            "counters": {
                "records": sum(one.counts.events for one in windows),
                "late": sum(one.late for one in windows),
                "folded": folded,
            },
            "newest": newest,
            "owners": {topic: list(owner) for topic, owner in sorted(owners.items())},
        },
    )


def of_deltas(
    sums: pa.Table, ranges: Iterable[Mapping[str, Any]], records: int, unreadable: int, state: Mapping[str, Any],
    now_s: float,
) -> Batch:  # fmt: skip
    """From `frames.delta_sums` and `frames.delta_ranges`; `records` were read, `unreadable` of them were not deltas."""
    before: int | None = state.get("newest")
    newest, windows, repeats = before or 0, [], 0
    for row in sums.to_pylist():
        newest = max(newest, min(row["newest"], int(now_s)))
        repeats += row["repeats"]
        if not row["events"]:
            continue  # all of it was already counted
        latency = {one["bucket"]: one["count"] for one in row["latency"] or ()}
        windows.append(
            Window(
                row["start"], MINUTE_S, row["kind"], row["ns"], row["channel"],
                row["sub"] if row["kind"] == SETTLED else "", row["type"], row["source"],
                read(row.__getitem__), row["events"] if _is_late(row["start"], before) else 0, latency,
            )
        )  # fmt: skip
    seen = Seen.from_json(state.get("seen", {}))
    for one in ranges:
        seen.add(one["by"], one["first"], one["last"], one["at"])
    seen.forget(newest)
    return Batch(
        merge([table_of(windows)]),
        {
            "counters": {
                "records": records,
                "late": sum(one.late for one in windows),
                "repeats": repeats,
                "unreadable": unreadable,
            },
            "newest": newest,
            "seen": seen.to_json(),
        },
    )


def _is_late(start: int, newest: int | None) -> bool:
    return newest is not None and start + MINUTE_S <= newest - LATENESS_S
