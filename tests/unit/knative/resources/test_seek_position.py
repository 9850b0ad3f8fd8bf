"""Where a seek moves offsets to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.resources.seek_position import SeekPosition, Shift, in_future, seek_position, shifted
from knative.resources.values import Start, StartTime


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Start.EARLIEST),
        ("latest", Start.LATEST),
        ("+5", Shift(5)),
        ("-5", Shift(-5)),
        ("+0", Shift(0)),
        ("1970-01-01T00:00:02Z", StartTime(2000, "1970-01-01T00:00:02Z")),
        ("1970-01-01T01:00:02.5+01:00", StartTime(2500, "1970-01-01T01:00:02.5+01:00")),
    ],
)
def test_position_is_read(text: str, position: SeekPosition) -> None:
    assert seek_position(text) == position


@pytest.mark.parametrize(
    "text", ["", "5", "+", "++5", "+ 5", "Earliest", "now", "2026-02-31T00:00:00Z", "2026-01-01", "+٣"]
)
def test_text_that_is_not_a_position_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid position"):
        seek_position(text)


@pytest.mark.parametrize(("text", "future"), [("1970-01-01T00:00:10Z", False), ("1970-01-01T00:00:10.001Z", True)])
def test_time_in_the_future(text: str, future: bool) -> None:
    assert in_future(seek_position(text), 10.0) is future
    assert not in_future(seek_position("latest"), 10.0)


@given(by=st.integers(), old=st.integers(-1, 100), low=st.integers(0, 50), length=st.integers(0, 50))
def test_shift_stays_in_the_log(by: int, old: int, low: int, length: int) -> None:
    offset = shifted(Shift(by), old, low, low + length)
    assert low <= offset <= low + length
    exact = (low if old < 0 else old) + by
    if low <= exact <= low + length:
        assert offset == exact
