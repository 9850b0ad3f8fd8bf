"""When a client that failed is followed by another."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.consumer.membership import run_sessions
from tables.kafka.errors import KafkaFailed

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
FENCED = KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))
FAILED = KafkaFailed("reading the offsets")


class Sessions(threading.Event):
    """Some sessions, each with its length and how it ends. Also what stops them, whose waits take no time."""

    def __init__(self, *ends: tuple[float, Exception | None]) -> None:
        super().__init__()
        self.ends, self.now = list(ends), 0.0
        self.failures: list[tuple[Exception, bool]] = []
        self.waits_s: list[float] = []

    def run(self) -> None:
        run_sessions(
            self.session, self, lambda problem, fatal: self.failures.append((problem, fatal)), lambda: self.now
        )

    def session(self) -> None:
        took_s, problem = self.ends.pop(0)
        self.now += took_s
        if not self.ends:
            self.set()
        if problem is not None:
            raise problem

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout or 0.0)
        self.now += timeout or 0.0
        return self.is_set()


@pytest.mark.parametrize(
    ("lengths_s", "waits_s"),
    [
        ([1.0] * 6, [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]),
        ([1.0, 1.0, 60.0, 60.1, 1.0], [1.0, 2.0, 4.0, 1.0, 2.0]),
    ],
    ids=["longer and longer", "soon after one that was steady"],
)
def test_the_wait_before_joining_again(lengths_s: Sequence[float], waits_s: Sequence[float]) -> None:
    sessions = Sessions(*((length_s, TIMED_OUT) for length_s in lengths_s))
    sessions.run()
    assert sessions.waits_s == waits_s
    assert sessions.failures == [(TIMED_OUT, False)] * len(lengths_s)


def test_a_new_name_is_needed_after_a_fatal_error_only() -> None:
    sessions = Sessions((1.0, FENCED), (1.0, FAILED), (1.0, TIMED_OUT), (1.0, None), (1.0, None))
    sessions.run()
    assert sessions.failures == [(FENCED, True), (FAILED, False), (TIMED_OUT, False)]
    assert sessions.waits_s == [1.0, 2.0, 4.0], "a session that just ended is followed by the next at once"


def test_no_session_begins_once_it_is_stopped_and_other_errors_are_raised() -> None:
    sessions = Sessions((1.0, ValueError("a bug")), (1.0, None))
    with pytest.raises(ValueError, match="a bug"):
        sessions.run()
    sessions.set()
    sessions.run()
    assert len(sessions.ends) == 1
