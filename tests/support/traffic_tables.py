"""Traffic tables without Spark: for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.traffic.dataset import Commit, Dataset, day_name
from analytics.traffic.windows import DAY_S, Window, table_of, windows_of


def write_tables(folder: Path, windows: Iterable[Window], run: int = 1, **more: Any) -> Commit:
    """Commit these windows as the whole content of the tables."""
    dataset, days = Dataset(folder), dict[str, list[Window]]()
    for window in windows:
        days.setdefault(day_name(window.start // DAY_S * DAY_S), []).append(window)
    for day, some in days.items():
        for size in {window.size for window in some}:
            target = folder / "windows" / f"resolution={size}" / f"day={day}" / f"run={run}"
            target.mkdir(parents=True)
            pq.write_table(table_of([window for window in some if window.size == size]), target / "part-0.parquet")
    commit = replace(Commit("penstock", "cluster", run), days=dataset.files_of(str(run)), **more)
    dataset.write(commit)
    return commit


def rows_of(folder: Path) -> list[Window]:
    """All windows as they are stored, of every length, sorted by their start."""
    dataset = Dataset(folder)
    last = dataset.last()
    assert last is not None
    tables = [pq.read_table(path, partitioning=None) for path in dataset.paths(last)]
    return sorted(
        (window for table in tables for window in windows_of(pa.table(table))), key=lambda window: window.start
    )


def write_former(folder: Path, windows: Sequence[Window], state: Commit | None) -> None:
    """Tables of format 1, as the versions before the dataset wrote them: of two batches and one that is not committed.
    Without `state` their facts are missing."""
    folder.mkdir()
    about = {"format": 1, "id": "i", "instance": "penstock", "cluster": ""}
    (folder / "tables.json").write_text(json.dumps(about))
    for query in ("records", "deltas"):
        mine = [window for window in windows if (window.kind == "stored") == (query == "records")]
        parts = {"upto=0000000003": mine[:1], "batch=0000000002": mine[:1], "batch=0000000004": mine[1:]}
        for name, some in {**parts, "batch=0000000005": mine}.items():
            part = folder / query / "parts" / name
            part.mkdir(parents=True)
            pq.write_table(table_of(some), part / "windows.parquet")
            if state is not None:
                (part / "facts.json").write_text(json.dumps(_facts(query, state)))
        for name, content in (("offsets", _places(query, state)), ("commits", "{}")):
            (folder / query / "checkpoint" / name).mkdir(parents=True)
            (folder / query / "checkpoint" / name / "4").write_text(f"v1\n{{}}\n{content}")


def _places(query: str, state: Commit | None) -> str:
    topics = state.offsets if state is not None else {}
    mine = {topic: at for topic, at in topics.items() if state and (topic in state.owners) == (query == "records")}
    return json.dumps(mine)


def _facts(query: str, state: Commit) -> dict[str, Any]:
    facts: dict[str, Any] = {"counters": {}, "ids": dict(state.ids)}
    if query == "records":
        newest = {topic: at for topic, at in state.newest.items() if topic in state.owners}
        return {**facts, "newest": newest, "owners": {topic: list(owner) for topic, owner in state.owners.items()}}
    [newest_s] = [at for topic, at in state.newest.items() if topic not in state.owners]
    return {**facts, "newest": newest_s, "seen": dict(state.seen)}
