"""Times as Penstock writes them are RFC 3339, in UTC; a fraction is cut off, not rounded."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.timefmt import in_microseconds, in_milliseconds, in_seconds, is_time


@pytest.mark.parametrize(
    ("unix_s", "seconds", "milliseconds", "microseconds"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.9996, "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.999Z", "2023-11-14T22:13:20.999600Z"),
        (951_782_400.25, "2000-02-29T00:00:00Z", "2000-02-29T00:00:00.250Z", "2000-02-29T00:00:00.250000Z"),
    ],
)
def test_time_is_written_in_utc(unix_s: float, seconds: str, milliseconds: str, microseconds: str) -> None:
    assert (in_seconds(unix_s), in_milliseconds(unix_s)) == (seconds, milliseconds)
    assert in_microseconds(unix_s) == microseconds


@given(st.floats(0, 4e9))
def test_what_is_written_is_a_time(unix_s: float) -> None:
    for text in (in_seconds(unix_s), in_milliseconds(unix_s), in_microseconds(unix_s)):
        assert is_time(text.encode())
    # A datetime has whole microseconds: the number is rounded to one before the rest of its millisecond is cut off.
    assert -1e-6 < unix_s - datetime.fromisoformat(in_milliseconds(unix_s)).timestamp() < 0.002
