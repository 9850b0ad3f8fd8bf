"""Formats text and figures for people who look at a page. Pure.

Event sources, types and addresses are arbitrary text. `visible` replaces characters that are invisible, change the
reading direction or break XML by readable escapes, and cuts long text. It does not escape HTML; templates always do.
An unknown figure is a dash.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime

UNKNOWN = "\N{EN DASH}"
TEXT_MAX = 300  #: characters of one text in the page
SENTENCE_MAX = 600  #: of a sentence of evidence, remedy or method

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_URI = re.compile(r"^https?://")


def visible(text: str, limit: int = TEXT_MAX) -> str:
    """Returns `text` with every invisible or misleading character written as `\\u202e`, cut to `limit` characters."""
    length = len(text)
    text = text[: limit + 1]
    if not text.isprintable() or not text.isascii():
        text = _escape_unprintable(text)
    if len(text) <= limit and length <= limit:
        return text
    return f"{text[: limit - 1].rstrip()}…"


def _escape_unprintable(text: str) -> str:
    letters, marks = [], 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        if not letter.isprintable() or marks > 2:  # more of them would cover the neighbouring lines
            letters.append(letter.encode("unicode_escape").decode("ascii"))
        else:
            letters.append(letter)
    return "".join(letters)


def short(text: str, limit: int = 28) -> str:
    """Shortens a URI for a box of the map: without its scheme, and cut in the middle, as both ends distinguish it."""
    text = _URI.sub("", visible(text)).rstrip("/") or visible(text)
    if len(text) <= limit:
        return text
    tail = limit // 2 - 1
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def quantity(value: float) -> str:
    """Returns three significant digits with a unit prefix: 0.25, 12.5, 562, 3.8k."""
    for size, letter in _STEPS:
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size)}{letter}"
    return _digits(value)


def _digits(value: float) -> str:
    size = abs(value)
    if size < 0.0005:
        return "0"
    places = 3 if size < 0.0995 else 2 if size < 9.995 else 1 if size < 99.95 else 0
    # Slightly more than the value, so that a half is rounded up, as the page's scripts do.
    text = f"{value * (1 + 1e-12):.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate(value: float | None) -> str:
    """Returns events per second."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return "0/s" if value == 0 else "<0.001/s" if 0 < value < 0.0005 else f"{quantity(value)}/s"


def bytes_rate(value: float | None) -> str:
    """Returns bytes per second."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{quantity(value)}B/s" if value >= 999.5 else f"{quantity(round(value))} B/s"


def seconds(value: float | None) -> str:
    """Returns a duration: 4.2 ms, 118 ms, 2.5 s, 3.5 min, 2 h."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 0.9995:
        return f"{_digits(value * 1e3)} ms"
    if value < 120:
        return f"{_digits(value)} s"
    return f"{_digits(value / 60)} min" if value < 7200 else f"{_digits(value / 3600)} h"


def count(value: float | None) -> str:
    """Returns a whole number with commas between thousands."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.0f}"


def plural(number: int, singular: str, many: str = "") -> str:
    """Returns `1 channel`, `3 channels`."""
    return f"{count(number)} {singular if number == 1 else many or singular + 's'}"


def moment(unix_s: float) -> str:
    """Returns a time in UTC, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(start: float, end: float) -> str:
    """Returns a time span in UTC; the date appears once if both ends have the same."""
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    until = last.strftime("%H:%M:%S") if first.date() == last.date() else last.strftime("%Y-%m-%d %H:%M:%S")
    return f"{first:%Y-%m-%d %H:%M:%S} \N{EN DASH} {until} UTC"
