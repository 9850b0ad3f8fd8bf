"""The plain count: one loop over the same files, in memory, on one core. What every other way must agree with.

It shares nothing with the pipeline but the codes, on purpose: no chunks, no parsing of ours. Refuses to skip anything
in silence: what has no code is counted under its own name.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analytics.census.model import CODES, Problem


@dataclass(slots=True)
class Count:
    """Of any number of files."""

    years: dict[int, dict[int, int]] = field(default_factory=dict)  #: year -> code -> lines
    problems: dict[str, int] = field(default_factory=dict)
    lines: int = 0


def count_files(files: Iterable[tuple[int, Path]]) -> Count:
    """`files`: (year, gzip file). Raises OSError or EOFError for a file that cannot be read to its end."""
    total = Count()
    for year, path in files:
        codes = total.years.setdefault(year, dict.fromkeys(CODES, 0))
        with gzip.open(path) as lines:
            for line in lines:
                total.lines += 1
                _add(line.rstrip(b"\r\n"), codes, total.problems)
    return total


def _add(line: bytes, codes: dict[int, int], problems: dict[str, int]) -> None:
    problem = Problem.SHORT
    if len(line) >= 32:
        try:
            code = int(line[30:32])
        except ValueError:
            problem = Problem.NO_CODE
        else:
            if code in codes:
                codes[code] += 1
                return
            problem = Problem.OUT_OF_RANGE
    problems[problem] = problems.get(problem, 0) + 1


def same(expected: Mapping[int, Mapping[int, int]], found: Mapping[int, Mapping[int, int]]) -> bool:
    """Equal, where a code that is not mentioned was found no times, and a year without any line is no year."""
    return _nonzero(expected) == _nonzero(found)


def _nonzero(years: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    shown = {year: {code: n for code, n in codes.items() if n} for year, codes in years.items()}
    return {year: codes for year, codes in shown.items() if codes}
