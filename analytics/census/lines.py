"""Reads the housing unit code of one line of a census file. Pure.

    column (0-based)   0 ............ 30 31 32 ...................... about 1,000
                       household id ...[code].... everything else

The code has two columns, padded with a blank. A line without a code gives a Problem, which is counted too. Any bytes
are accepted without an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Protocol

from analytics.census.model import CODES, Problem

CODE_FROM, CODE_TO = 30, 32
#: How much of a line is kept; the code is before that.
LINE_BYTES_MAX = 65_536


class Readable(Protocol):
    """A binary file with lines."""

    def readline(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, at most to the line's end (included)."""


def _known() -> dict[bytes, int | Problem]:
    """Every number of two characters -> its code, or that it is not a code."""
    known: dict[bytes, int | Problem] = {}
    for pair in product(_NUMERIC, repeat=2):
        text = "".join(pair).encode()
        with suppress(ValueError):
            known[text] = int(text) if int(text) in CODES else Problem.OUT_OF_RANGE
    return known


# All that `int` takes in two bytes, except `\n`, which ends a line: the plain count calls `int`, and both must agree.
_NUMERIC = "0123456789 +-\t\r\v\f"
_BY_TEXT = _known()


def code_of(line: bytes) -> int | Problem:
    """The line's code, or why it has none. The line may include its end."""
    if len(line) < CODE_TO or (line[CODE_TO - 1] in b"\r\n" and len(line.rstrip(b"\r\n")) < CODE_TO):
        return Problem.SHORT
    return _BY_TEXT.get(line[CODE_FROM:CODE_TO], Problem.NO_CODE)


def lines_of(stream: Readable) -> Iterator[bytes]:
    """The lines without their ends; of a longer line the first LINE_BYTES_MAX bytes. Raises what the stream raises."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
            continue
        yield line[:LINE_BYTES_MAX]
        while line and not line.endswith(b"\n"):  # skip the rest of it
            line = stream.readline(LINE_BYTES_MAX + 1)
