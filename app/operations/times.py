"""Times as users write them for `--since` and `--until`, and in the console: how long ago, or when. Pure.

Does not guess: a time needs a zone, and a number needs a unit. The caller passes the current time.
"""

from __future__ import annotations

import re
from datetime import datetime

from knative.delivery.policy import parse_duration_s
from knative.errors import UsageError

_SHORT = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?", re.ASCII | re.IGNORECASE
)
_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}


def read_time(text: str, option: str, now_s: float) -> float:
    """Returns Unix seconds of `90s`, `10m`, `1h30m`, `2d`, `PT10M` (that long ago) or of an RFC 3339 time.

    Not before 1970: Kafka's times begin there. Raises UsageError that names `option`.
    """
    wish = text.strip()
    ago_s = _duration_s(wish)
    if ago_s is not None:
        return max(0.0, now_s - ago_s)
    try:
        moment = datetime.fromisoformat(wish)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or len(wish) < len("2026-01-01T00:00Z"):
        raise UsageError(
            f"{option} {text!r} is not a valid time.",
            "Write how long ago (90s, 10m, 1h30m, 2d) or an RFC 3339 time with a zone (2026-11-21T12:00:00Z).",
        )
    return max(0.0, moment.timestamp())


def _duration_s(text: str) -> float | None:
    short = _SHORT.fullmatch(text)
    if text and short is not None:
        return sum(float(short[unit]) * unit_s for unit, unit_s in _UNITS_S.items() if short[unit])
    try:
        return parse_duration_s(text)
    except ValueError:
        return None
