"""Delivery times of a subscription, from the windows in memory."""

from __future__ import annotations

import pytest

from knative.traffic import latency_sketch
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import SHORT_S, Window
from web.console.traffic import WINDOWS, delivery_times

NOW_S = 1_800_000_005.0
_NAME = ("demo", "orders", "billing")
_START = int(NOW_S) // SHORT_S * SHORT_S


def _row(*seconds: float) -> bytes:
    return Window(0, latency=latency_sketch.of(seconds)).encode()


def test_delivery_times_are_of_a_quarter_of_an_hour_and_of_the_present_window() -> None:
    """Rows of others, which may be thousands, are not even decoded."""
    rows = {
        (SHORT_S, _START): {_NAME: _row(8.0)},
        (SHORT_S, _START - SHORT_S): {_NAME: _row(1.0, 1.0), ("demo", "orders", "other"): b"not read"},
        (SHORT_S, _START - (WINDOWS - 1) * SHORT_S): {_NAME: _row(1.0)},
        (SHORT_S, _START - WINDOWS * SHORT_S): {_NAME: _row(*[64.0] * 100)},  # over
    }
    for _ in range(2):  # the second time from what was kept
        times = delivery_times(HeldRows(rows, NOW_S), _NAME)
        assert times == pytest.approx((1.0, 8.0), rel=0.05)
    rows[SHORT_S, _START] = {_NAME: _row(16.0)}
    assert delivery_times(HeldRows(rows, NOW_S), _NAME)[1] == pytest.approx(16.0, rel=0.05)


def test_delivery_times_are_not_known_without_deliveries() -> None:
    assert delivery_times(HeldRows({}, NOW_S), _NAME) == (None, None)
    assert delivery_times(None, _NAME) == (None, None)
