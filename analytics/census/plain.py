"""The plain count: one loop over the same files, in memory, on one core. All other counts must equal it.

It deliberately shares only the codes with the pipeline, neither chunks nor parsing, so that both cannot have the same
fault. Lines without a code are counted under their own name.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analytics.census.model import CODES, Problem


@dataclass(slots=True)
class Count:
    """The counts of any number of files."""

    years: dict[int, dict[int, int]] = field(default_factory=dict)  #: year -> code -> lines
    problems: dict[str, int] = field(default_factory=dict)
    lines: int = 0


def count_files(files: Iterable[tuple[int, Path]]) -> Count:
    """`files`: (year, gzip file). Raises OSError or EOFError for a file that is not readable to its end."""
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
    """Whether both are equal; a missing code counts as 0, and a year without lines as missing."""
    return _nonzero(expected) == _nonzero(found)


def _nonzero(years: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    shown = {year: {code: n for code, n in codes.items() if n} for year, codes in years.items()}
    return {year: codes for year, codes in shown.items() if codes}
