r"""Patterns of LIKE: `%` is any text, `_` any character, `\%` and `\_` are these characters.

    order.%ed%_x        first "order.", then "ed" somewhere, and at the end any character and "x"

Each part between two `%` is searched from the left and never again: that is enough to find a match. So the parts
together walk through a text once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

#: Where a part is in a text from a position on, before another one; -1 = it is not there.
_Find = Callable[[str, int, int], int]

#: Its result is true if the text fits.
Fits = Callable[[str], object]

_TOKENS = re.compile(r"\\[%_]|.", re.DOTALL).findall
_SHORT = 16  #: characters: for longer texts `str.find` may take text times part, and a regular expression does not


@dataclass(frozen=True, slots=True)
class _Part:
    """What stands between two `%`. `literal` None: it has a `_`."""

    literal: str | None
    length: int
    regex: str


def pattern_weight(pattern: str) -> int:
    """Returns how often a pattern handles each character of a text; 0 = only some at the ends."""
    middle = [part for part in _parts(pattern)[1:-1] if part.length]
    return max((1 if part.literal is not None else part.length for part in middle), default=0)


def compile_pattern(pattern: str) -> Fits:
    """Returns the pattern as a function of a text."""
    parts = _parts(pattern)
    if len(parts) == 1:
        return _whole(parts[0])
    first, *between, last = parts
    middle = [part for part in between if part.length]
    return _simple(first, middle, last) or _general(first, middle, last)


@lru_cache(maxsize=16)  # one pattern is asked for its weight and compiled, one after the other
def _parts(pattern: str) -> list[_Part]:
    parts: list[list[str]] = [[]]
    for token in _TOKENS(pattern):
        if token == "%":
            parts.append([])
        else:
            parts[-1].append(token)
    return [_part(tokens) for tokens in parts]


def _part(tokens: list[str]) -> _Part:
    literal = None if "_" in tokens else "".join(token[-1] for token in tokens)
    regex = "".join("." if token == "_" else re.escape(token[-1]) for token in tokens)
    return _Part(literal, len(tokens), regex)


def _whole(part: _Part) -> Fits:
    return re.compile(part.regex, re.DOTALL).fullmatch if part.literal is None else part.literal.__eq__


def _simple(first: _Part, middle: list[_Part], last: _Part) -> Fits | None:
    """Returns the function of a pattern that people mostly write: `text%`, `%text`, `text%text` and `%text%`."""
    match first.literal, [part.literal for part in middle], last.literal:
        case str(start), [], "":
            return lambda text: text.startswith(start)
        case "", [], str(end):
            return lambda text: text.endswith(end)
        case "", [str(inside)], "" if len(inside) <= _SHORT:
            return lambda text: inside in text
        case str(start), [], str(end):
            begin = len(start)
            return lambda text: text.startswith(start) and text.endswith(end, begin)
    return None


def _general(first: _Part, middle: list[_Part], last: _Part) -> Fits:
    starts, ends = _at(first), _at(last)
    steps = tuple((_finder(part), part.length) for part in middle)
    before, behind = first.length, last.length

    def fits(text: str) -> bool:
        position, end = before, len(text) - behind
        if position > end or not starts(text, 0) or not ends(text, end):
            return False
        for find, length in steps:
            position = find(text, position, end)
            if position < 0:
                return False
            position += length
        return True

    return fits


def _at(part: _Part) -> Callable[[str, int], object]:
    """Returns what says whether the part is at a position of a text."""
    literal = part.literal
    if literal is not None:
        return lambda text, position: text.startswith(literal, position)
    return re.compile(part.regex, re.DOTALL).match


def _finder(part: _Part) -> _Find:
    literal = part.literal
    if literal is not None and len(literal) <= _SHORT:
        return lambda text, position, end: text.find(literal, position, end)
    # Without `_`, this is the algorithm of Knuth, Morris and Pratt. With it, each position may take the whole part.
    search = re.compile(part.regex, re.DOTALL).search

    def find(text: str, position: int, end: int) -> int:
        match = search(text, position, end)
        return -1 if match is None else match.start()

    return find
