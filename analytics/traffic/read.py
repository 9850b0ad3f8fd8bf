"""Reads the tables of the traffic job: windows as values, without Spark and without Kafka.

    for one in read_windows(Path(".penstock/traffic"), size=60, since=..., until=...):
        one.start, one.namespace, one.channel, one.counts.events, one.latency_s(0.99)

Safe while the job writes: a batch is visible as a whole or not at all, and if a compaction removes files during a read,
the read starts again. `with_window_files` does the same for programs that read the Parquet files with Spark or DuckDB
and merge rows themselves (rows with equal keys add up).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.traffic.store import TABLES, WINDOWS, parts, reset_hint
from analytics.traffic.windows import HOUR_S, MINUTE_S, SCHEMA, Window, coarsen, merge, windows_of
from knative.errors import PenstockError, UsageError

QUERIES = ("records", "deltas")
T = TypeVar("T")


def read_windows(
    path: Path, size: int = MINUTE_S, since: float | None = None, until: float | None = None
) -> list[Window]:
    """Merged windows of `size` seconds (60 or 3600) that begin in [since, until), sorted by start and names.

    Minutes that retention has merged into hours are only in the hours. Raises PenstockError when there are no tables.
    """
    return windows_of(read_table(path, size, since, until))


def read_table(path: Path, size: int = MINUTE_S, since: float | None = None, until: float | None = None) -> pa.Table:
    """The same as an Arrow table of `windows.SCHEMA`."""
    if size not in (MINUTE_S, HOUR_S):
        raise UsageError(f"There are windows of {MINUTE_S} and {HOUR_S} seconds, not of {size}.")
    if not (path / TABLES).is_file():
        raise PenstockError(f"There are no traffic tables in {path}.", "Create them: penstock job traffic.")
    table = _load(path)
    if size == HOUR_S:
        table = coarsen(table, HOUR_S)
    kept = pc.equal(table["size"], size)
    if since is not None:
        kept = pc.and_(kept, pc.greater_equal(table["start"], int(since) // size * size))
    if until is not None:
        kept = pc.and_(kept, pc.less(table["start"], until))
    return merge([table.filter(kept)])


def window_files(path: Path) -> list[Path]:
    """The Parquet files that are valid now."""
    return [part.path / WINDOWS for query in QUERIES for part in parts(path / query / "parts")]


def with_window_files(path: Path, read: Callable[[list[Path]], T]) -> T:
    """What `read` makes of the files that are valid now. It is called again, a few times, if it fails and some of them
    are gone, because a compaction has merged them."""
    for _ in range(4):
        files = window_files(path)
        try:
            return read(files)
        except Exception:  # Arrow and Spark have errors of their own
            if all(file.exists() for file in files):
                raise
    return read(window_files(path))


def _load(path: Path) -> pa.Table:
    def read(files: list[Path]) -> pa.Table:
        return pa.concat_tables([SCHEMA.empty_table(), *(pq.read_table(file, schema=SCHEMA) for file in files)])

    try:
        return with_window_files(path, read)
    except pa.ArrowException as problem:
        raise PenstockError(
            f"The traffic tables in {path} cannot be read ({problem}).",
            reset_hint(path),
        ) from problem
