"""The life of one client of the producer, by a clock of the test and a client that only counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.worker.producer.client import TRANSITIONS, ClientState, ProducerClient
from tests.support.checked_state import CheckedState

LIVE, FAILED, RETIRING, PURGING, CLOSED = ClientState
TIMEOUT_S = 10.0
GRACE_S = 0.5


class Counting:
    """A librdkafka client, as far as the end of its life goes."""

    def __init__(self) -> None:
        self.waiting = 0
        self.purged = 0

    def __len__(self) -> int:
        return self.waiting

    def produce(self) -> None:
        """One more record."""
        self.waiting += 1

    def purge(self) -> None:
        """Count it."""
        self.purged += 1

    def poll(self, timeout: float) -> int:
        """What was purged is reported."""
        if self.purged:
            self.waiting = 0
        return 0


class Stuck(Counting):
    """Never reports its records."""

    def poll(self, timeout: float) -> int:
        """Nothing."""
        return 0


class Checked(ProducerClient):
    """A client whose changes of state are checked against the table, each one."""

    state = CheckedState(TRANSITIONS)


def client(kafka: Counting | None = None) -> tuple[Checked, Counting]:
    kafka = Counting() if kafka is None else kafka
    fake: Any = kafka
    return Checked(fake, TIMEOUT_S, 0.0), kafka


def test_slow_client_gets_a_grace_period_then_its_records_fail() -> None:
    it, kafka = client()
    kafka.produce()
    it.replaced(100.0, slow=True)
    it.wind_up(100.0 + GRACE_S - 0.01)
    assert (it.state, kafka.purged) == (RETIRING, 0)
    it.wind_up(100.0 + GRACE_S)
    assert (it.state, kafka.purged, len(kafka)) == (PURGING, 1, 0)
    kafka.produce()  # the event loop had read the client just before it was replaced
    it.wind_up(100.0 + GRACE_S + 0.9)
    assert (it.state, len(kafka)) == (PURGING, 0)
    it.wind_up(100.0 + GRACE_S + 1.0)
    assert it.state is CLOSED


@pytest.mark.parametrize(("waited_s", "rest_s"), [(0.0, 9.0), (6.0, 3.0), (20.0, 0.0)])
def test_client_that_has_used_up_its_epochs_gets_the_rest_of_the_time(waited_s: float, rest_s: float) -> None:
    it, kafka = client()
    if waited_s:
        it.ages.generation[0] += 1
        it.too_slow(0.25)  # a generation is closed
    kafka.produce()
    replaced_s = 0.25 + waited_s
    it.replaced(replaced_s, slow=False)
    it.wind_up(replaced_s + rest_s + GRACE_S - 0.01)
    assert (it.state, kafka.purged) == (RETIRING, 0)
    it.wind_up(replaced_s + rest_s + GRACE_S)
    assert (it.state, kafka.purged) == (PURGING, 1)


def test_client_with_a_fatal_error_gets_none() -> None:
    it, kafka = client()
    it.fail("by a test")
    it.replaced(100.0, slow=True)
    assert (it.state, it.reason) == (FAILED, "by a test")
    it.wind_up(100.0)
    assert (it.state, kafka.purged) == (PURGING, 1)


def test_client_that_reports_nothing_is_waited_for_longer() -> None:
    it, kafka = client(Stuck())
    kafka.produce()
    it.fail("by a test")
    it.replaced(0.0, slow=True)
    it.wind_up(29.9)
    assert it.state is PURGING
    it.wind_up(30.0)
    assert it.state is CLOSED


@pytest.mark.parametrize(("waited_s", "too_slow"), [(8.0, False), (9.5, True)])
def test_client_is_too_slow_before_the_time_out(waited_s: float, too_slow: bool) -> None:
    it, _ = client()
    it.ages.generation[0] += 1
    assert not it.too_slow(0.25)  # a generation is closed
    assert it.too_slow(0.25 + waited_s) is too_slow
    assert it.state is LIVE


@pytest.mark.parametrize(("now_s", "wait_s"), [(0.25, 0.75), (1.0, 0.0), (60.0, 0.0)])
def test_clients_that_fail_at_once_follow_each_other_slowly(now_s: float, wait_s: float) -> None:
    it, _ = client()
    assert it.rebuild_wait_s(now_s) == 0.0, "one that is only slow is replaced at once"
    it.fail("by a test")
    assert it.rebuild_wait_s(now_s) == wait_s


@given(
    st.lists(st.tuples(st.sampled_from(("fail", "wait", "wind up", "send", "used up", "slow")), st.floats(0.0, 40.0)))
)
def test_replaced_client_always_ends_with_nothing_left(steps: list[tuple[str, float]]) -> None:
    it, kafka = client()
    now, was_replaced = 0.0, False
    for step, seconds in [
        *steps,
        ("slow", 0.0),
        ("wait", TIMEOUT_S),
        ("wind up", 0.0),
        ("wait", 30.0),
        ("wind up", 0),
    ]:
        if step == "wait":
            now += seconds
        elif step == "fail":
            it.fail("by a test")
        elif step == "send" and it.state is not CLOSED:
            kafka.produce()
        elif step in ("used up", "slow") and not was_replaced:
            was_replaced = True
            it.replaced(now, slow=step == "slow")
        elif step == "wind up" and was_replaced and it.state is not CLOSED:
            it.wind_up(now)
    assert (it.state, len(kafka)) == (CLOSED, 0)
