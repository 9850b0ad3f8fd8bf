"""`read`: cuts census files into chunks, one file after the other.

A file that cannot be used does not stop the others; the report and the exit code show it.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from analytics.census.chunks import TooLongError, cut, file_id, to_record
from analytics.census.lines import lines_of
from analytics.census.sources import DAMAGES, Source, damage
from app.census.inputs import UnusableError, at_hand, digest
from app.census.sinks import Sink


@dataclass(frozen=True, slots=True)
class FileRow:
    """The result of one file. `problem` "" = no problem."""

    name: str
    year: int
    where: str
    chunks: int = 0
    lines: int = 0
    problem: str = ""
    whole: bool = False  #: all of its chunks were written


@dataclass(slots=True)
class ReadConfig:
    """`chunks_max` None: all."""

    chunks_max: int | None = None
    delay_s: float = 0.0
    say: Callable[[str], None] = field(default=lambda _: None)  #: gets progress messages
    fetched: Callable[[], None] = field(default=lambda: None)  #: is called after each download


def read_all(sources: Sequence[Source], sink: Sink, config: ReadConfig) -> list[FileRow]:
    """Read the sources; a row for each one read. Returns when the sink has stored everything. Raises PenstockError."""
    rows: list[FileRow] = []
    left, seen = config.chunks_max, set[str]()
    for source in sources:
        if left == 0:
            break
        config.say(f"Reading {source.where} ...")
        try:
            with at_hand(source, config.fetched) as path:
                row = _read_one(source, path, sink, config, left, seen)
        except UnusableError as problem:
            row = FileRow(source.name, source.year, source.where, problem=str(problem))
        rows.append(row)
        left = None if left is None else left - row.chunks
    sink.finish()
    return rows


def _read_one(source: Source, path: Path, sink: Sink, config: ReadConfig, left: int | None, seen: set[str]) -> FileRow:
    file = file_id(source.year, source.name, digest(path))
    if file in seen:
        raise UnusableError("a file with the same name and content was read before: it counts once")
    seen.add(file)
    chunks, lines, last = 0, 0, False
    try:
        with gzip.open(path) as stream:
            for chunk in islice(cut(lines_of(stream), file, source.year, source.name), left):
                sink.put(*to_record(chunk))
                chunks, lines, last = chunks + 1, lines + len(chunk.lines), chunk.last
                if chunks % 10_000 == 0:
                    config.say(f"  {chunks} chunks")
                if config.delay_s:
                    time.sleep(config.delay_s)
    except (OSError, TooLongError, *DAMAGES) as problem:  # the file changed after the check, or has a huge line
        why = str(problem) if isinstance(problem, TooLongError) else damage(problem, 0)
        return FileRow(source.name, source.year, source.where, chunks, lines, why)
    whole = last or not chunks
    config.say(f"  {chunks} chunks, {lines} lines" + ("" if whole else ", incomplete"))
    return FileRow(source.name, source.year, source.where, chunks, lines, whole=whole)
