"""What waits for a condition asks less often the longer it has waited, and has a limit."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.processes import Failed, wait_until


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(processes, "time", clock)
    return clock


@pytest.mark.parametrize(("after_s", "questions_max", "late_s"), [(0.5, 12, 0.06), (10.0, 60, 0.5), (100.0, 250, 0.5)])
def test_long_wait_asks_seldom_and_ends_soon_after(
    clock: Clock, after_s: float, questions_max: int, late_s: float
) -> None:
    questions = 0

    def holds() -> bool:
        nonlocal questions
        questions += 1
        return clock.now_s >= after_s

    wait_until("it is time", holds, 180)

    assert questions <= questions_max
    assert clock.now_s <= after_s + late_s


def test_what_is_asked_seldom_from_the_start_stays_so(clock: Clock) -> None:
    times: list[float] = []

    wait_until("it is time", lambda: times.append(clock.now_s) or len(times) == 4, 180, poll_s=2.0)  # type: ignore[func-returns-value]

    assert times == [0.0, 2.0, 4.0, 6.0]


def test_error_says_what_did_not_happen(clock: Clock) -> None:
    with pytest.raises(Failed, match=r"^not within 3 s: the sun rises$"):
        wait_until("the sun rises", lambda: False, 3)
