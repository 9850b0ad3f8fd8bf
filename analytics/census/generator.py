"""Writes files like the real ones, for use without network: fixed width, about 1,000 characters, a code per line.

The same seed, year and month give the same bytes. Wrong lines are made only on request. The numbers are not realistic:
nine of ten lines are houses and flats, and every other code occurs.
"""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analytics.census.lines import CODE_FROM
from analytics.census.model import CODES, Problem

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

LINE_CHARS = 1_000
_WEIGHTS = [900 if code == 1 else 40 if code == 5 else 5 for code in CODES]
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Recipe:
    """The content of a file. Shares are of all lines, between 0 and 1."""

    lines: int
    seed: int = 1
    short_share: float = 0.0
    out_of_range_share: float = 0.0
    no_code_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Made:
    """A written file, and how many lines of each kind it has."""

    path: Path
    year: int
    month: str
    lines: int
    kinds: dict[int | Problem, int]


def file_name(year: int, month: str) -> str:
    """The name on the census site: jan19pub.dat.gz."""
    return f"{month}{year % 100:02d}pub.dat.gz"


def write(folder: Path, year: int, month: str, recipe: Recipe) -> Made:
    """Write the file into `folder`/YEAR, completely or not at all. Raises OSError."""
    path = folder / str(year) / file_name(year, month)
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds: Counter[int | Problem] = Counter()
    handle, staging = tempfile.mkstemp(prefix=".making-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
            for text in _texts(year, month, recipe, kinds):
                packed.write(text)
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    finally:
        Path(staging).unlink(missing_ok=True)
    return Made(path, year, month, recipe.lines, dict(kinds))


def _texts(year: int, month: str, recipe: Recipe, kinds: Counter[int | Problem]) -> Iterator[bytes]:
    dice = random.Random(f"{recipe.seed} {year} {month}")
    tails = [_tail(dice) for _ in range(16)]  # random characters for each line would take minutes
    shares = (recipe.short_share, recipe.out_of_range_share, recipe.no_code_share)
    problems = (Problem.SHORT, Problem.OUT_OF_RANGE, Problem.NO_CODE)
    number = MONTHS.index(month) + 1
    for first in range(0, recipe.lines, _BATCH):
        some = min(_BATCH, recipe.lines - first)
        wanted: list[int | Problem] = list(dice.choices(list(CODES), _WEIGHTS, k=some))
        if any(shares):
            good = 1.0 - sum(shares)
            odd = dice.choices((None, *problems), (good, *shares), k=some)
            wanted = [code if problem is None else problem for code, problem in zip(wanted, odd, strict=True)]
        kinds.update(wanted)
        yield b"".join(_line(dice, tails, kind, number, year) for kind in wanted)


def _tail(dice: random.Random) -> bytes:
    return "".join(dice.choices("0123456789 -", k=LINE_CHARS - CODE_FROM - 2)).encode()


def _line(dice: random.Random, tails: list[bytes], kind: int | Problem, month: int, year: int) -> bytes:
    """Household id (15), month (2), year (4), and what fills up to the code."""
    head = b"%015d%02d%04d%09d" % (dice.getrandbits(49), month, year, dice.getrandbits(29))
    if kind is Problem.SHORT:
        return head[: dice.randrange(CODE_FROM + 1)] + b"\n"
    if kind is Problem.OUT_OF_RANGE:
        code = dice.choice((b"13", b"99", b"-1"))
    elif kind is Problem.NO_CODE:
        code = dice.choice((b"  ", b"xx", b"1x"))
    else:
        code = b"%2d" % kind
    return head + code + tails[dice.getrandbits(4)] + b"\n"
