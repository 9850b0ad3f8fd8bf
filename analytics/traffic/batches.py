"""What becomes of one batch: Spark's sums -> windows, facts, the state after it. The step between frames and store.

    sums of Spark + state before --> windows (late ones counted) + {"counters": ..., "newest": ..., "seen": ...}

Late is what comes when its window should have been over for LATENESS_S already, by the newest record its topic had in
the batches before. It is counted in its window all the same. A clock that runs ahead cannot move that mark beyond now.
Refuses to run anything: Arrow tables and plain values come in and go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from analytics.traffic.seen import Seen
from analytics.traffic.windows import MINUTE_S, SETTLED, STORED, Window, merge, table_of

LATENESS_S = 600

Owner = tuple[str, str]  #: namespace and name of a channel


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch leaves behind."""

    table: pa.Table
    facts: dict[str, Any]

    @property
    def counters(self) -> dict[str, int]:
        """Records, late, repeats, unreadable, folded of this batch."""
        found: dict[str, int] = self.facts["counters"]
        return found


def of_records(sums: pa.Table, owners: Mapping[str, Owner], state: Mapping[str, Any], now_s: float) -> Batch:
    """From `frames.record_sums`; `owners`: topic -> channel."""
    newest: dict[str, int] = dict(state.get("newest", {}))
    before, windows, folded = dict(newest), [], 0
    for row in sums.to_pylist():
        topic = row["topic"]
        if topic not in owners:  # of a channel that has gone since: its records have no owner any more
            continue
        namespace, channel = owners[topic]
        newest[topic] = max(newest.get(topic, 0), min(row["newest"], int(now_s)))
        folded += row["folded"]
        late = row["events"] if _is_late(row["start"], before.get(topic)) else 0
        windows.append(
            Window(
                row["start"], MINUTE_S, STORED, namespace, channel, "", row["type"], row["source"],
                events=row["events"], bytes=row["bytes"], late=late,
            )
        )  # fmt: skip
    return Batch(
        merge([table_of(windows)]),
        {
            "counters": {
                "records": sum(one.events for one in windows),
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
    """From `frames.delta_sums` and `frames.delta_ranges`; `records`: how many were read, `unreadable` among them."""
    before: int | None = state.get("newest")
    newest, windows, repeats = before or 0, [], 0
    for row in sums.to_pylist():
        newest = max(newest, min(row["newest"], int(now_s)))
        repeats += row["repeats"]
        if not row["events"]:
            continue  # all of it was counted before
        latency = {one["bucket"]: one["count"] for one in row["latency"] or ()}
        windows.append(
            Window(
                row["start"], MINUTE_S, row["kind"], row["ns"], row["channel"],
                row["sub"] if row["kind"] == SETTLED else "", row["type"], row["source"],
                row["events"], row["bytes"], row["delivered"], row["retried"], row["dead"], row["filtered"],
                row["ignored"], row["events"] if _is_late(row["start"], before) else 0, latency,
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
