"""Reads the tables of the traffic job with Arrow, without Spark and without Kafka.

    for window in read_windows(".penstock/traffic", size=60, since=..., until=...):
        window.start, window.namespace, window.channel, window.counts.events, window.latency_s(0.99)

Only the days, columns and row groups of the span are read. Safe while the job writes: the files of one commit are read,
and if the job has removed them meanwhile, those of the next one. `with_window_files` does the same for programs that
read the Parquet files themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analytics.traffic.dataset import WINDOWS, Dataset, Folder, day_start, reset_hint
from analytics.traffic.windows import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    PLACE,
    SCHEMA,
    Window,
    coarsen,
    count_once,
    merge,
    sum_over,
    windows_of,
)
from knative.errors import PenstockError, UsageError

_DIRECTORIES = pa.schema([("resolution", pa.int32()), ("day", pa.string()), ("run", pa.string())])
T = TypeVar("T")


def read_windows(
    folder: Folder, size: int = MINUTE_S, since: float | None = None, until: float | None = None
) -> list[Window]:
    """Returns windows of `size` seconds (60, 3600 or 86400) that begin in [since, until), sorted by start and names.

    Days that are kept in hours are only in hours. Raises PenstockError when there are no tables.
    """
    return windows_of(read_table(folder, size, since, until))


def read_table(
    folder: Folder, size: int = MINUTE_S, since: float | None = None, until: float | None = None
) -> pa.Table:
    """Returns the windows of `read_windows` as an Arrow table of `windows.SCHEMA`."""
    return _read(folder, lambda days: pa.concat_tables([SCHEMA.empty_table(), *days]), size, since, until)


def read_sums(
    folder: Folder,
    size: int = MINUTE_S,
    since: float | None = None,
    until: float | None = None,
    over: Sequence[str] = ("start", "size"),
) -> tuple[list[Window], tuple[int, int] | None]:
    """Returns all that came or was settled, once, summed over these keys; and the first and last second of its windows,
    None = there are none. Days that are in longer windows than `size` are read in those.

    Takes the memory of one day, and of the sums.
    """

    def add(days: Iterator[pa.Table]) -> tuple[list[Window], tuple[int, int] | None]:
        sums, bounds = SCHEMA.empty_table(), list[int]()
        for day in days:
            if day.num_rows:
                bounds += [pc.min(day["start"]).as_py(), pc.max(pc.add(day["start"], day["size"])).as_py()]
                sums = sum_over([sums, day], over)
        return windows_of(sums), (min(bounds), max(bounds)) if bounds else None

    return _read(folder, add, size, since, until, whole=True)


def count_rows(folder: Folder, since: float | None = None, until: float | None = None) -> int:
    """Counts the rows of the days in the span. Reads the ends of files only."""
    dataset = Dataset(folder)
    return with_window_files(folder, lambda files: _dataset(dataset, files).count_rows() if files else 0, since, until)


def window_files(folder: Folder, since: float | None = None, until: float | None = None) -> list[str]:
    """Returns the Parquet files that are valid now, of the days in the span, as paths in `Dataset(folder).fs`."""
    dataset = Dataset(folder)
    last = dataset.last()
    return [] if last is None else dataset.paths(last, since, until)


def with_window_files(
    folder: Folder, read: Callable[[list[str]], T], since: float | None = None, until: float | None = None
) -> T:
    """Returns what `read` makes of the files that are valid now. It is called again, a few times, if it fails and some
    of them are gone, because the job has replaced them."""
    for _ in range(4):
        files = window_files(folder, since, until)
        try:
            return read(files)
        except Exception:  # Arrow and Spark have errors of their own
            if set(files) <= set(window_files(folder, since, until)):
                raise
    return read(window_files(folder, since, until))


def _read(
    folder: Folder,
    take: Callable[[Iterator[pa.Table]], T],
    size: int,
    since: float | None,
    until: float | None,
    whole: bool = False,
) -> T:
    """Returns what `take` makes of the windows, which come day by day; with `whole` see `read_sums`."""
    if size not in (MINUTE_S, HOUR_S, DAY_S):
        raise UsageError(f"There are windows of {MINUTE_S}, {HOUR_S} and {DAY_S} seconds, but not of {size}.")
    dataset = Dataset(folder)
    if dataset.last() is None:
        raise PenstockError(f"There are no traffic tables in {folder}.", "Create them with `penstock job traffic`.")
    span = (since, until)
    try:
        return with_window_files(folder, lambda files: take(_days(dataset, files, size, span, whole)), *span)
    except (pa.ArrowException, OSError) as problem:
        if isinstance(problem, OSError) and not isinstance(problem, FileNotFoundError):
            raise dataset.unreadable(problem) from None  # counting again would not help
        raise PenstockError(f"The traffic tables in {folder} cannot be read ({problem}).", reset_hint(folder)) from None


def _days(
    dataset: Dataset, files: Sequence[str], size: int, span: tuple[float | None, float | None], whole: bool
) -> Iterator[pa.Table]:
    days: dict[str, list[str]] = {}
    for file in files:
        days.setdefault(file.rpartition("/run=")[0], []).append(file)
    ordered = sorted(days.items(), key=lambda pair: pair[0].rpartition("/day=")[2])
    before = SCHEMA.empty_table().select(PLACE)
    for (folder, names), (_, following) in zip(ordered, [*ordered[1:], *ordered[-1:]], strict=True):
        day, stored_size = folder.rpartition("/day=")[2], int(folder.rpartition("/resolution=")[2].partition("/")[0])
        if stored_size > size and not whole:
            continue
        length = max(size, stored_size)
        rows = _dataset(dataset, names).to_table(SCHEMA.names, filter=_within(length, *span))
        if whole and rows.num_rows:
            first = ds.field("start") == day_start(day) + DAY_S
            after = _dataset(dataset, following).to_table(list(PLACE), filter=first)  # the last day has none
            rows, before = count_once(rows, before, after)
        yield rows if length == stored_size else merge(coarsen(rows, length))


def _within(size: int, since: float | None, until: float | None) -> pc.Expression:
    """Returns the rows of windows of `size` that begin in [since, until), or that since is in."""
    condition = pc.scalar(True)
    if since is not None:
        condition &= ds.field("start") >= int(since) // size * size
    if until is not None:
        condition &= ds.field("start") < -(-math.ceil(until) // size) * size
    return condition


def _dataset(dataset: Dataset, files: Sequence[str]) -> ds.Dataset:
    return ds.dataset(
        list(files),
        schema=pa.unify_schemas([SCHEMA, _DIRECTORIES]),
        format="parquet",
        filesystem=dataset.fs,
        partitioning=ds.partitioning(_DIRECTORIES, flavor="hive"),
        partition_base_dir=f"{dataset.root}/{WINDOWS}",
    )
