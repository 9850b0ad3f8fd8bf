"""Computes the totals of the census demo from results, each counted once; defines the rows of the results table. Pure.

    record of topic results --apply--> rows that changed --(table, changelog)--> all rows --summarize--> totals --> JSON

Rows have one owner, a partition of the topic results, whose number their key begins with:

    "3/<file id>"   the counts of one file, and a bit for each counted chunk
    "3/position"    the next offset, and the number of records that were not readable
    "3/refused"     records of the topic compute that were not valid chunks

A record below the position was already applied and has no effect. A chunk whose bit is set was counted twice and counts
once. So any record may come any number of times, and the totals stay exact.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from analytics.census.model import CODES, Problem, Refused, Result, decode

Row = dict[str, Any]

_POSITION, _REFUSED = "position", "refused"


def partition_of(key: str) -> int:
    """The partition that owns a row."""
    return int(key.partition("/")[0])


def next_offset(rows: Mapping[str, Row], partition: int) -> int | None:
    """The offset to continue at; None = the beginning of the partition."""
    row = rows.get(f"{partition}/{_POSITION}")
    return None if row is None else int(row["next"])


def apply(rows: Mapping[str, Row], partition: int, records: Iterable[tuple[int, bytes | None]]) -> dict[str, Row]:
    """Rows that change with these (offset, value) records of one partition, in the order of their offsets.

    The position is the last row, so a kill between any two stored rows does no harm, if they are stored in this order.
    """
    key = f"{partition}/{_POSITION}"
    position = _Position(**rows.get(key, {}))
    files: dict[str, FileTotals] = {}
    refused: list[str] | None = None
    before = position.next
    for offset, value in records:
        if offset < position.next:
            continue  # already applied
        position.holes += offset - position.next
        position.next = offset + 1
        try:
            result = decode(value)
        except ValueError:
            position.unreadable += 1
            continue
        if isinstance(result, Refused):
            refused = _with(refused or rows.get(f"{partition}/{_REFUSED}", {}).get("where", []), result.where)
            continue
        name = f"{partition}/{result.place.file}"
        if name not in files:
            files[name] = FileTotals.read(rows[name]) if name in rows else FileTotals(result.year, result.name)
        if not files[name].add(result):
            position.repeats += 1
    if position.next == before:
        return {}
    changed = {name: part.row() for name, part in files.items()}
    if refused is not None:
        changed[f"{partition}/{_REFUSED}"] = {"where": refused}
    changed[key] = position.row()
    return changed


def _with(places: list[str], where: str) -> list[str]:
    return places if where in places or len(places) >= 1_000 else [*places, where]


@dataclass(slots=True)
class _Position:
    next: int = 0
    holes: int = 0  #: missing offsets: expired, or the topic was emptied
    unreadable: int = 0
    repeats: int = 0  #: results of chunks that were already counted

    def row(self) -> Row:
        return {"next": self.next, "holes": self.holes, "unreadable": self.unreadable, "repeats": self.repeats}


@dataclass(slots=True)
class FileTotals:
    """The counts of one file, in one partition."""

    year: int
    name: str
    lines: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    chunks_in_all: int | None = None  #: known when its last chunk is counted
    seen: bytearray = field(default_factory=bytearray)  #: bit n = chunk n is counted

    def add(self, result: Result) -> bool:
        """Count the result; False if it was already counted."""
        byte, bit = divmod(result.place.number, 8)
        if byte >= len(self.seen):
            self.seen.extend(bytes(byte + 1 - len(self.seen)))
        if self.seen[byte] & 1 << bit:
            return False
        self.seen[byte] |= 1 << bit
        self.lines += result.lines
        for code, count in result.codes.items():
            self.codes[code] = self.codes.get(code, 0) + count
        for problem, count in result.problems.items():
            self.problems[problem] = self.problems.get(problem, 0) + count
        if result.last:
            self.chunks_in_all = result.place.number + 1
        return True

    def row(self) -> Row:
        """The row as a value for JSON."""
        return {
            "year": self.year,
            "name": self.name,
            "lines": self.lines,
            "codes": {str(code): count for code, count in self.codes.items()},
            "problems": dict(self.problems),
            "chunks_in_all": self.chunks_in_all,
            "seen": base64.b64encode(zlib.compress(self.seen, 1)).decode(),
        }

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> FileTotals:
        """Inverse of `row`."""
        return cls(
            row["year"],
            row["name"],
            row["lines"],
            {int(code): count for code, count in row["codes"].items()},
            dict(row["problems"]),
            row["chunks_in_all"],
            bytearray(zlib.decompress(base64.b64decode(row["seen"]))),
        )


@dataclass(frozen=True, slots=True)
class FileSummary:
    """One file over all partitions. `complete`: all of its chunks are counted."""

    id: str
    year: int
    name: str
    lines: int
    chunks: int
    chunks_in_all: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """All files over all partitions. `twice` is 0 unless the number of partitions was changed."""

    years: Mapping[int, Mapping[int, int]]
    problems: Mapping[Problem, int]
    files: tuple[FileSummary, ...]
    refused: tuple[str, ...]
    repeats: int
    unreadable: int
    holes: int
    twice: int  #: chunks that two partitions counted

    @property
    def lines(self) -> int:
        """Lines with a code and without."""
        return sum(file.lines for file in self.files)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing and nothing is doubtful."""
        doubts = self.unreadable or self.holes or self.twice or self.refused
        return bool(self.files) and not doubts and all(file.complete for file in self.files)


def summarize(rows: Mapping[str, Row]) -> Summary:
    """Totals of all rows of all partitions."""
    by_file: dict[str, list[FileTotals]] = {}
    positions: list[_Position] = []
    refused: set[str] = set()
    for key, row in rows.items():
        name = key.partition("/")[2]
        if name == _POSITION:
            positions.append(_Position(**row))
        elif name == _REFUSED:
            refused.update(row["where"])
        else:
            by_file.setdefault(name, []).append(FileTotals.read(row))
    years: dict[int, dict[int, int]] = {}
    problems: dict[Problem, int] = dict.fromkeys(Problem, 0)
    files, twice = [], 0
    for name, parts in by_file.items():
        codes = years.setdefault(parts[0].year, dict.fromkeys(CODES, 0))
        for part in parts:
            for code, count in part.codes.items():
                codes[code] += count
            for problem, count in part.problems.items():
                problems[Problem(problem)] += count
        file, again = _summary(name, parts)
        files.append(file)
        twice += again
    return Summary(
        dict(sorted(years.items())),
        problems,
        tuple(sorted(files, key=lambda file: (file.year, file.name, file.id))),
        tuple(sorted(refused)),
        sum(one.repeats for one in positions),
        sum(one.unreadable for one in positions),
        sum(one.holes for one in positions),
        twice,
    )


def _summary(name: str, parts: list[FileTotals]) -> tuple[FileSummary, int]:
    """The summary of a file, and how many of its chunks more than one partition has counted."""
    seen = [int.from_bytes(part.seen, "little") for part in parts]
    union = 0
    for bits in seen:
        union |= bits
    chunks = union.bit_count()
    in_all = max((part.chunks_in_all for part in parts if part.chunks_in_all is not None), default=None)
    first = parts[0]
    lines = sum(part.lines for part in parts)
    file = FileSummary(name, first.year, first.name, lines, chunks, in_all, chunks == in_all)
    return file, sum(bits.bit_count() for bits in seen) - chunks


def to_plain(summary: Summary) -> dict[str, dict[str, dict[str, Any]]]:
    """Year -> code -> description and count, with every code."""
    return {
        str(year): {str(code): {"description": CODES[code], "count": codes[code]} for code in CODES}
        for year, codes in summary.years.items()
    }


def to_wide(summary: Summary, behind: int) -> dict[str, Any]:
    """Totals by year and code, and all known problems with them."""
    return {
        "years": {str(year): {str(code): codes[code] for code in CODES} for year, codes in summary.years.items()},
        "complete": summary.complete and not behind,
        "behind": behind,
        "lines": summary.lines,
        "problems": {problem.value: count for problem, count in summary.problems.items()},
        "chunks": sum(file.chunks for file in summary.files),
        "repeats": summary.repeats,
        "refused": list(summary.refused),
        "unreadable": summary.unreadable,
        "holes": summary.holes,
        "twice": summary.twice,
        "files": [asdict(file) for file in summary.files],
    }
