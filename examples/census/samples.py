"""Files like the real ones, for use without network, and a plain count of files, which all other counts must equal.

Fixed width, 1,000 characters a line. The same seed, year and month give the same bytes; lines without a code are made
only on request. The plain count shares only the codes with the pipeline, so that both cannot have the same fault.
"""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from examples.census.model import CODE_FROM, CODES, NO_CODE, OUT_OF_RANGE, PROBLEMS, SHORT

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def file_name(year: int, month: str) -> str:
    """Returns the name on the census site: jan19pub.dat.gz."""
    return f"{month}{year % 100:02d}pub.dat.gz"


def write(folder: Path, year: int, month: str, lines: int, wrong: float = 0.0, seed: int = 1) -> Path:
    """Write the file into `folder`/YEAR. `wrong`: the share of lines without a code, each kind as often. Raises
    OSError."""
    path = folder / str(year) / file_name(year, month)
    path.parent.mkdir(parents=True, exist_ok=True)
    dice = random.Random(f"{seed} {year} {month}")
    tails = [bytes(dice.choices(b"0123456789 -", k=968)) for _ in range(16)]
    weights = [(1 - wrong) / len(CODES)] * len(CODES) + [wrong / len(PROBLEMS)] * len(PROBLEMS)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
        for word in dice.choices((*CODES, *PROBLEMS), weights, k=lines):
            packed.write(_line(dice, word, dice.choice(tails)))
    return path


def _line(dice: random.Random, word: str, tail: bytes) -> bytes:
    head, odd = b"%030d" % dice.getrandbits(96), {OUT_OF_RANGE: (b"13", b"99", b"-1"), NO_CODE: (b"  ", b"xx", b"1x")}
    if word == SHORT:
        return head[: dice.randrange(CODE_FROM + 1)] + b"\n"
    return head + (dice.choice(odd[word]) if word in odd else b"%2d" % int(word)) + tail + b"\n"


def plain_count(files: Iterable[tuple[int, Path]]) -> dict[int, Counter[str]]:
    """Returns year -> word -> lines. `files`: (year, gzip file). Raises OSError or EOFError for an incomplete file."""
    years: dict[int, Counter[str]] = {}
    for year, path in files:
        counter = years.setdefault(year, Counter())
        with gzip.open(path) as lines:
            for line in lines:
                counter[_plain_word(line.rstrip(b"\r\n"))] += 1
    return years


def _plain_word(line: bytes) -> str:
    if len(line) < 32:
        return "short"
    code = line[30:32].decode("latin-1").strip(" \t\r\v\f")
    if not code.removeprefix("-").removeprefix("+").isdecimal() or not code.isascii():
        return "no_code"
    return str(int(code)) if str(int(code)) in CODES else "out_of_range"
