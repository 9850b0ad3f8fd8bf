"""The values that the parts of the census demo exchange: housing unit codes, the place of a chunk, its result.

    chunk (topic compute)  --counted by analytics/census-->  result (topic results)  --summed by analytics/census/totals

The place of a chunk is its identity: a chunk that is counted twice has the same place, and counts once. Results are
JSON; input that is not readable raises an error with a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Housing unit codes (HEHOUSUT) and what they mean.
CODES: Mapping[int, str] = {
    0: "other unit",
    1: "house, apartment, flat",
    2: "unit in non-transient hotel or motel",
    3: "permanent unit in transient hotel or motel",
    4: "unit in rooming house",
    5: "mobile home or trailer without permanent room added",
    6: "mobile home or trailer with one or more permanent rooms added",
    7: "unit not specified above",
    8: "quarters not a housing unit in rooming or boarding house",
    9: "unit not permanent in transient hotel or motel",
    10: "unoccupied tent or trailer site",
    11: "student quarters in college dormitory",
    12: "other unit not specified above",
}

COMPUTE_TOPIC = "compute"
RESULTS_TOPIC = "results"

CHUNK_LINES = 10
CHUNKS_MAX = 4_194_304  #: of one file
YEARS = range(1900, 2101)
NAME_CHARS_MAX = 255

#: Headers of a chunk's record. The last chunk of a file says so, which is how an end is known.
YEAR_HEADER = "year"
NAME_HEADER = "file"
LAST_HEADER = "last"

#: The address of the real files: {year} 2019, {yy} 19, {month} jan.
URL_TEMPLATE = "https://www2.census.gov/programs-surveys/cps/datasets/{year}/basic/{month}{yy}pub.dat.gz"

_VERSION = 1
_PLACE = re.compile(r"(?P<file>[0-9a-f]{32})-(?P<number>\d{1,7})", re.ASCII)


class Problem(StrEnum):
    """Why a line has no code."""

    SHORT = "short"  #: it ends before the code does
    NO_CODE = "no_code"  #: the columns hold no number
    OUT_OF_RANGE = "out_of_range"  #: a number, and not one of the codes


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a chunk: `file` identifies year, name and content of the file, `number` counts its chunks from 0."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """A place from its text. Raises ValueError."""
        match = _PLACE.fullmatch(text)
        if match is None or int(match["number"]) >= CHUNKS_MAX:
            raise ValueError(f"{text[:80]!r} is not a valid chunk id")
        return cls(match["file"], int(match["number"]))


@dataclass(frozen=True, slots=True)
class Result:
    """The content of one chunk. `codes` and `problems` add up to `lines`."""

    place: Place
    year: int
    name: str  #: of the file, for people
    lines: int
    codes: Mapping[int, int]
    problems: Mapping[Problem, int] = field(default_factory=dict)
    last: bool = False  #: the file ends with it


@dataclass(frozen=True, slots=True)
class Refused:
    """A record of the topic compute that is not a valid chunk. `where` is TOPIC/PARTITION/OFFSET, its identity."""

    where: str
    why: str


def url_problem(template: str) -> str | None:
    """Why this template does not give valid URLs; None = it does."""
    try:
        filled = template.format(year=2019, yy="19", month="jan")
    except (KeyError, IndexError, ValueError, AttributeError):
        return "it may hold {year}, {yy} and {month}, and no other braces"
    if not filled.startswith(("http://", "https://")):
        return "it begins with http:// or https://"
    return None


def key_of(result: Result | Refused) -> bytes:
    """The key of the record in topic results: equal results get the same partition."""
    return str(result.place).encode() if isinstance(result, Result) else b"refused " + result.where.encode()


def encode(result: Result | Refused) -> bytes:
    """For the topic results."""
    row: dict[str, object] = {"v": _VERSION}
    if isinstance(result, Refused):
        row |= {"refused": result.where, "why": result.why}
    else:
        row |= {"id": str(result.place), "year": result.year, "name": result.name, "lines": result.lines}
        row["codes"] = {str(code): count for code, count in sorted(result.codes.items())}
        if result.problems:
            row["problems"] = {problem.value: count for problem, count in sorted(result.problems.items())}
        if result.last:
            row["last"] = True
    return json.dumps(row, separators=(",", ":")).encode()


def decode(value: bytes | None) -> Result | Refused:
    """Inverse of `encode`. Raises ValueError with what is wrong."""
    try:
        row = json.loads(value or b"")
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as problem:
        raise ValueError("it is not JSON") from problem
    if not isinstance(row, dict) or row.get("v") != _VERSION:
        raise ValueError("it is not a result of a known version")
    if "refused" in row:
        return Refused(str(row["refused"])[:NAME_CHARS_MAX], str(row.get("why", ""))[:NAME_CHARS_MAX])
    result = Result(
        Place.parse(str(row.get("id"))),
        _whole(row.get("year"), "year"),
        str(row.get("name", ""))[:NAME_CHARS_MAX],
        _whole(row.get("lines"), "lines"),
        {int(code): _whole(count, "a code's count") for code, count in _counts(row, "codes")},
        {Problem(name): _whole(count, "a problem's count") for name, count in _counts(row, "problems")},
        row.get("last") is True,
    )
    _check(result)
    return result


def _counts(row: Mapping[str, Any], name: str) -> list[tuple[str, object]]:
    found = row.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"its {name} must be an object")
    return list(found.items())


def _whole(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{what} is not a valid count")
    return value


def _check(result: Result) -> None:
    if result.year not in YEARS:
        raise ValueError(f"{result.year} is not a valid year")
    if not result.codes.keys() <= CODES.keys():
        raise ValueError("it has an unknown code")
    if not 1 <= result.lines <= CHUNK_LINES:
        raise ValueError(f"a chunk has 1 to {CHUNK_LINES} lines")
    if sum(result.codes.values()) + sum(result.problems.values()) != result.lines:
        raise ValueError("its counts do not add up to its lines")
