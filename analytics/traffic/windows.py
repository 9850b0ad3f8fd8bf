"""Traffic windows as values and as Arrow tables: their columns, how they add up, and how minutes become hours.

    stored    records that lie in a channel's topic           tier "records": read one by one, exact accepted  events
    that an ingress took in                  tier "deltas": summed by the worker, exact unless it crashes settled
    events that a subscription is done with         tier "deltas"

`stored` and `accepted` count the same events in two ways: use one of them (`counted_once`), never their sum. Late
counts of Kafka or of a worker are added to their window, so sums are right whenever they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knative.traffic.counts import NAMES, Counts, column
from knative.traffic.latency_sketch import LatencySketch, quantile

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400
_MINUTES_MAX_S = 6 * HOUR_S
_MINUTE_BITS = 33  #: of the minutes until the year 9999
_MINUTES = (1 << _MINUTE_BITS) - 1

STORED = "stored"
ACCEPTED = "accepted"
SETTLED = "settled"
TIERS = {STORED: "records", ACCEPTED: "deltas", SETTLED: "deltas"}

KEYS = ("start", "size", "kind", "namespace", "channel", "subscription", "type", "source")
COUNTS = (*map(column, NAMES), "late")
PLACE = ("namespace", "channel", "start", "size", "kind", "events")  #: what `count_once` looks at

_TEXT = pa.string()
_BUCKETS = pa.list_(pa.struct([("bucket", pa.int32()), ("count", pa.int64())]))
#: The columns of every Parquet file: `start` in Unix seconds, `size` 60, 3600 or 86400, `latency` as counts by bucket
#: of `knative.traffic.latency_sketch` (end-to-end seconds of delivered events).
SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("size", pa.int32()),
        *((name, _TEXT) for name in KEYS[2:]),
        *((name, pa.int64()) for name in COUNTS),
        ("latency", _BUCKETS),
    ]
)
#: The same for Spark.
SPARK_SCHEMA = (
    ", ".join(
        f"{name} {'int' if name == 'size' else 'string' if name in KEYS[2:] else 'bigint'}" for name in (*KEYS, *COUNTS)
    )
    + ", latency array<struct<bucket:int,count:bigint>>"
)


@dataclass(frozen=True, slots=True)
class Window:
    """What happened in `size` seconds from `start` (Unix seconds), for one channel or subscription, type and source.

    `type` and `source` are both "" for the sum of all beyond the limit. `late` counts events that came after their
    window should have ended; the other numbers include them.
    """

    start: int
    size: int
    kind: str  #: stored, accepted or settled
    namespace: str
    channel: str
    subscription: str = ""  #: settled only
    type: str = ""
    source: str = ""
    counts: Counts = field(default_factory=Counts)
    late: int = 0
    latency: LatencySketch = field(default_factory=dict)

    @property
    def tier(self) -> str:
        """How the numbers were counted."""
        return TIERS.get(self.kind, "unknown")

    def latency_s(self, share: float) -> float | None:
        """Returns the seconds that this share (0..1) of the delivered events did not exceed; None if there are none."""
        return quantile(self.latency, share)


def size_for(since_s: float, until_s: float) -> int:
    """Returns the length of the windows by which this range is read: longer ones are read in hours."""
    return MINUTE_S if until_s - since_s <= _MINUTES_MAX_S else HOUR_S


def counted_once(table: pa.Table) -> pa.Table:
    """Returns the rows without the `accepted` ones whose events are also in a `stored` row of the channel.

    Usually both rows have the same start. But an event that is stored at the end of a window may be accepted in the
    next one. So where nothing is stored, accepted events count as stored before, up to the number of stored events that
    were not accepted until then. (A process whose clock is behind counts them one window earlier.)
    """
    return count_once(table, table.slice(0, 0), table.slice(0, 0))[0]


def count_once(table: pa.Table, before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Does the work of `counted_once` part by part, in the order of `start`. Returns the rows, and what the next part
    needs.

    `before`: what this returned for the part before. `after`: the windows that begin where this part ends."""
    rows = pa.concat_tables([part.select(PLACE) for part in (before, table, after)])
    names = pc.binary_join_element_wise(rows["namespace"], rows["channel"], "/").combine_chunks().dictionary_encode()
    minutes = rows["start"].to_numpy() // MINUTE_S
    keys = names.indices.to_numpy().astype(np.int64) << _MINUTE_BITS | minutes
    places, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    events, sums = rows["events"].to_numpy(), dict[str, NDArray[np.int64]]()
    for kind in (STORED, ACCEPTED):
        is_kind = pc.equal(rows["kind"], kind).to_numpy()
        sums[kind] = np.zeros(len(places), np.int64)
        np.add.at(sums[kind], of_row[is_kind], events[is_kind])
    stored, accepted = sums[STORED], sums[ACCEPTED]
    unaccepted = _unaccepted(places, stored - accepted)
    beside = np.zeros(len(places), np.int64)
    is_next = places[:-1] + rows["size"].to_numpy()[first[:-1]] // MINUTE_S == places[1:]
    beside[1:] += np.where(is_next, np.minimum(unaccepted, stored)[:-1], 0)
    beside[:-1] += np.where(is_next, np.maximum(stored - accepted, 0)[1:], 0)
    again = ((stored > 0) | (accepted <= beside))[of_row] & is_kind
    # For the next part: the newest windows, and for each channel one row with the events of earlier windows that are
    # not accepted yet.
    newest = (pc.max(table["start"]).as_py() or 0) // MINUTE_S
    last = np.flatnonzero(places & _MINUTES == newest)
    former = np.flatnonzero(places & _MINUTES < newest)
    former = former[np.flatnonzero(np.diff(places[former] >> _MINUTE_BITS, append=-1))]
    kinds = np.repeat([STORED, ACCEPTED], [len(former) + len(last), len(last)])
    left = rows.take(first[np.concatenate([former, last, last])]).select(PLACE[:-2])
    left = left.append_column("kind", pa.array(kinds, _TEXT))
    left = left.append_column("events", pa.array(np.concatenate([unaccepted[former], stored[last], accepted[last]])))
    return table.filter(pa.array(~again[before.num_rows :][: table.num_rows])), left


def _unaccepted(places: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many stored events of a channel are not accepted at the end of each window; never below 0. `more`:
    stored less accepted events of each window."""
    left = np.empty_like(more)
    for part in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places >> _MINUTE_BITS)) + 1):
        sums = np.cumsum(more[part])
        left[part] = sums - np.minimum(np.minimum.accumulate(sums), 0)
    return left


def table_of(windows: Sequence[Window]) -> pa.Table:
    """Returns the windows as a table of `SCHEMA`."""
    columns = {name: [getattr(window, name) for window in windows] for name in (*KEYS, "late")}
    columns.update((column(name), [getattr(window.counts, name) for window in windows]) for name in NAMES)
    columns["latency"] = [
        [{"bucket": bucket, "count": count} for bucket, count in sorted(window.latency.items())] for window in windows
    ]
    return pa.table(columns, schema=SCHEMA)


def windows_of(table: pa.Table) -> list[Window]:
    """Reverses `table_of`, in the order of the rows."""
    rows = table.select([*KEYS, *COUNTS]).to_pylist()
    sketches = table["latency"].to_pylist()
    return [
        Window(
            **{name: row[name] for name in KEYS},
            counts=Counts(*(row[column(name)] for name in NAMES)),
            late=row["late"],
            latency={bucket["bucket"]: bucket["count"] for bucket in sketch or ()},
        )
        for row, sketch in zip(rows, sketches, strict=True)
    ]


def coarsen(table: pa.Table, size_s: int) -> pa.Table:
    """Returns the same rows in windows of `size_s`; rows of that size or more do not change. Does not merge."""
    finer = pc.less(table["size"], size_s)
    begin = pc.multiply(pc.divide(table["start"], size_s), size_s)
    start = pc.if_else(finer, begin, table["start"])
    size = pc.if_else(finer, pa.scalar(size_s, pa.int32()), table["size"])
    return table.set_column(0, SCHEMA.field("start"), start).set_column(1, SCHEMA.field("size"), size)


def merge(table: pa.Table) -> pa.Table:
    """Returns one row for each key, sorted by key: counts added, sketches added bucket by bucket."""
    if not table.num_rows:
        return table
    numbered = table.select([*KEYS, *COUNTS]).append_column("row", pa.array(np.arange(table.num_rows)))
    sums = numbered.group_by(list(KEYS), use_threads=False).aggregate(
        [*((name, "sum") for name in COUNTS), ("row", "list")]
    )
    sums = sums.rename_columns({f"{name}_sum": name for name in COUNTS}).sort_by([(name, "ascending") for name in KEYS])
    rows = sums["row_list"].combine_chunks()
    group_of_row = np.empty(table.num_rows, np.int64)
    group_of_row[pc.list_flatten(rows).to_numpy()] = pc.list_parent_indices(rows).to_numpy()
    latency = table["latency"].combine_chunks()
    entries = pc.list_flatten(latency)
    flat = pa.table(
        {
            "group": group_of_row[pc.list_parent_indices(latency).to_numpy()],
            **{name: pc.struct_field(entries, name) for name in ("bucket", "count")},
        }
    )
    added = flat.group_by(["group", "bucket"], use_threads=False).aggregate([("count", "sum")])
    added = added.sort_by([("group", "ascending"), ("bucket", "ascending")])
    ends = np.searchsorted(added["group"].to_numpy(), np.arange(sums.num_rows + 1)).astype(np.int32)
    buckets = [added[name].combine_chunks() for name in ("bucket", "count_sum")]
    sketches = pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays(buckets, ["bucket", "count"]))
    return sums.append_column("latency", sketches).select(SCHEMA.names).cast(SCHEMA)


def sum_over(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Returns the rows summed over these keys, which become 0 and ""."""
    whole = pa.concat_tables(tables)
    for name in names:
        place = SCHEMA.get_field_index(name)
        kind = SCHEMA.field(name).type
        nothing = pa.repeat(pa.scalar("" if kind == _TEXT else 0, kind), whole.num_rows)
        whole = whole.set_column(place, SCHEMA.field(name), nothing)
    return merge(whole)
