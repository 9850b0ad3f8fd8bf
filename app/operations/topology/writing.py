"""Writes the files of a report to one folder: page, document, tables, Mermaid and DOT.

Each file is replaced in one step, so a reader never sees a part of it. Other files in the folder stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from analytics.topology.compare import Difference
from analytics.topology.exports import COLUMNS, csv_text, dot, mermaid, write_parquet
from analytics.topology.model.document import Topology, to_json
from knative.errors import PenstockError, os_reason

PAGE = "report.html"


def write_report(topology: Topology, folder: Path, difference: Difference | None = None) -> list[Path]:
    """Write all formats to `folder`, which is created if needed. `difference`: to an earlier run, for the page. Raises
    PenstockError when that fails."""
    from analytics.topology.report import render

    writers: list[tuple[str, Callable[[Path], object]]] = [
        (PAGE, lambda path: path.write_text(render(topology, difference), encoding="utf-8")),
        ("topology.json", lambda path: path.write_bytes(to_json(topology))),
        ("topology.mmd", lambda path: path.write_text(mermaid(topology), encoding="utf-8")),
        ("topology.dot", lambda path: path.write_text(dot(topology), encoding="utf-8")),
    ]
    for table in COLUMNS:
        writers.append((f"{table}.csv", _csv_writer(topology, table)))
        writers.append((f"{table}.parquet", partial(write_parquet, topology, table)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_replace(folder / name, write) for name, write in writers]
    except OSError as problem:
        raise PenstockError(
            f"The report cannot be written to {folder}: {os_reason(problem)}.", "Name another folder with --out."
        ) from problem


def _csv_writer(topology: Topology, table: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(csv_text(topology, table), encoding="utf-8")


def _replace(path: Path, write: Callable[[Path], object]) -> Path:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return path
