"""Times and durations as commands show them. Pure."""

from __future__ import annotations

from datetime import datetime

from knative import timefmt


def show_time(unix_s: float | None) -> str:
    """Returns RFC 3339 in UTC with milliseconds; "" for None."""
    return "" if unix_s is None else timefmt.in_milliseconds(unix_s)


def show_duration(seconds: float | None) -> str:
    """Returns a duration in short form: `0.4s`, `12s`, `3m20s`, `2h5m`, `4d3h`; "-" for None."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds else "0s"
    whole = round(seconds)
    for size_s, name, next_s, next_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size_s:
            rest = whole % size_s // next_s
            return f"{whole // size_s}{name}" + (f"{rest}{next_name}" if rest else "")
    return f"{whole}s"


def age(time: object, now_s: float) -> str:
    """Returns the age of an RFC 3339 time, as `kubectl` shows it: `3m20s`; `in 5s` for a time to come, "" for none."""
    if not time:
        return ""
    ago_s = round(now_s - datetime.fromisoformat(str(time)).timestamp())
    text = f"{abs(ago_s)}s" if abs(ago_s) < 10 else show_duration(abs(ago_s))
    return f"in {text}" if ago_s < 0 else text
