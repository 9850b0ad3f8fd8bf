"""RFC 3339: times as Penstock writes them, always in UTC with `Z`, and the check of times that others have written."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_LONG_MONTHS = frozenset((b"01", b"03", b"05", b"07", b"08", b"10", b"12"))

#: RFC 3339, section 5.6, with all ranges except the days of each month. Second 60 is a leap second.
_TIME = re.compile(
    rb"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    rb"[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    rb"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
).fullmatch

#: Date, time of day, fraction without zeros at its end, and the offset unless it is zero.
_PARTS = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?(?:[Zz]|[+-]00:00|([+-]\d\d:\d\d))").fullmatch


def in_seconds(unix_s: float) -> str:
    """Returns `2026-11-21T12:00:00Z`. A fraction of a second is cut off."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def in_milliseconds(unix_s: float) -> str:
    """Returns `2026-11-21T12:00:00.250Z`. The rest of a millisecond is cut off."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_microseconds(unix_s: float) -> str:
    """Returns `2026-11-21T12:00:00.250000Z`, a MicroTime of the Kubernetes API."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_time(value: bytes) -> bool:
    """Returns whether this is an existing RFC 3339 date-time, with any fraction of a second and any offset."""
    return _TIME(value) is not None and (value[8:10] <= b"28" or _day_exists(value))


def canonical(text: str) -> str:
    """Returns the one form of a time that may be written in several: letters in upper case, no zeros at the end of the
    fraction, and `Z` for an offset of zero. Other offsets stay. Text that is not a time is returned unchanged."""
    parts = _PARTS(text)
    if parts is None:
        return text
    fraction = f".{parts[3]}" if parts[3] else ""
    return f"{parts[1]}T{parts[2]}{fraction}{parts[4] or 'Z'}"


def _day_exists(value: bytes) -> bool:
    """Returns whether a day after the 28th exists in its month. Expects that `_TIME` has checked the rest."""
    month, day = value[5:7], int(value[8:10])
    if month == b"02":
        year = int(value[:4])
        return day == 29 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= 30 or month in _LONG_MONTHS
