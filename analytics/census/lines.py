"""One line of a census file: which housing unit code does it have? Pure.

    column (0-based)   0 ............ 30 31 32 ...................... about 1,000
                       household id ...[code].... everything else

The code stands in two columns, padded with a blank. A line without one is a value as well: a Problem, to be counted.
Refuses to raise, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Protocol

from analytics.census.model import CODES, Problem

CODE_FROM, CODE_TO = 30, 32
_LEAST_BYTES = CODE_TO + 2  # from here on a line is long enough, whatever its end

#: Most of a line that is kept; what comes after it says nothing about the code.
LINE_BYTES_MAX = 65_536


class Readable(Protocol):
    """What lines are read from: a binary file."""

    def readline(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, up to and with the line's end."""


def _known() -> dict[bytes, int | Problem]:
    """Every text of two characters that is a number -> its code, or that it is none of them."""
    known: dict[bytes, int | Problem] = {}
    for pair in product(_NUMERIC, repeat=2):
        text = "".join(pair).encode()
        with suppress(ValueError):
            known[text] = int(text) if int(text) in CODES else Problem.OUT_OF_RANGE
    return known


_NUMERIC = "0123456789 +-\t\r\v\f"
_BY_TEXT = _known()


def code_of(line: bytes) -> int | Problem:
    """The line's code, or why it has none. A line's end may still be on it."""
    if len(line) < _LEAST_BYTES and len(line.rstrip(b"\r\n")) < CODE_TO:
        return Problem.SHORT
    return _BY_TEXT.get(line[CODE_FROM:CODE_TO], Problem.NO_CODE)


def lines_of(stream: Readable) -> Iterator[bytes]:
    """Its lines without their ends; of a longer line the first LINE_BYTES_MAX bytes. Raises what the stream raises."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
            continue
        yield line[:LINE_BYTES_MAX]
        while line and not line.endswith(b"\n"):  # skip the rest of it
            line = stream.readline(LINE_BYTES_MAX + 1)
