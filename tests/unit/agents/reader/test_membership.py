"""When a client that failed is followed by another, and what the join of a client shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.reader.membership import HANDOVER_S, JoinWatch, run_sessions
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
def test_wait_before_joining_again(lengths_s: Sequence[float], waits_s: Sequence[float]) -> None:
    sessions = Sessions(*((length_s, TIMED_OUT) for length_s in lengths_s))
    sessions.run()
    assert sessions.waits_s == waits_s
    assert sessions.failures == [(TIMED_OUT, False)] * len(lengths_s)


def test_new_name_is_needed_after_a_fatal_error_only() -> None:
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


SESSION_S = 8.0
LIMIT_S = 60.0


def joined_after(join_s: float, *, protocol: str = "classic") -> JoinWatch:
    watch = JoinWatch(protocol, SESSION_S, LIMIT_S)
    watch.joining(100.0)
    watch.joined(100.0 + join_s)
    return watch


def test_who_joins_soon_need_not_wait_for_others() -> None:
    assert joined_after(SESSION_S).handover_until == 0.0


@pytest.mark.parametrize(
    ("watch", "until"),
    [
        (lambda: joined_after(SESSION_S + 0.1), 108.1 + HANDOVER_S),
        (lambda: joined_after(SESSION_S + 0.1, protocol="consumer"), 0.0),  # without partitions it is not told
    ],
    ids=["its join took longer than a session", "it had no partitions"],
)
def test_who_waits_until_others_have_committed(watch: Callable[[], JoinWatch], until: float) -> None:
    assert watch().handover_until == pytest.approx(until)


def test_who_was_expelled_waits_once() -> None:
    watch = JoinWatch("classic", SESSION_S, LIMIT_S)
    watch.expelled()
    watch.joining(100.0)
    watch.joined(101.0)
    assert watch.handover_until == 101.0 + HANDOVER_S
    watch.joining(102.0)
    watch.joined(103.0)
    assert watch.handover_until == 101.0 + HANDOVER_S, "a later join neither ends it nor begins it again"


@pytest.mark.parametrize(("protocol", "gives_up"), [("classic", True), ("consumer", False)])
def test_client_that_does_not_join_is_given_up(protocol: str, gives_up: bool) -> None:
    watch = JoinWatch(protocol, SESSION_S, LIMIT_S)
    assert not watch.failed(1_000.0)
    watch.joining(100.0)
    assert not watch.failed(100.0 + LIMIT_S)
    assert watch.failed(100.1 + LIMIT_S) is gives_up
    watch.joined(200.0)
    assert not watch.failed(1_000.0)


def test_join_lasts_over_all_clients_that_have_tried() -> None:
    watch = JoinWatch("classic", SESSION_S, LIMIT_S)
    watch.joining(100.0)
    watch.joining(100.0 + SESSION_S)
    watch.joined(101.0 + SESSION_S)
    assert watch.handover_until == 101.0 + SESSION_S + HANDOVER_S
    watch.joining(200.0)
    watch.joining(210.0)
    assert not watch.failed(210.0 + LIMIT_S), "but each client has its own limit"
    assert watch.failed(210.1 + LIMIT_S)


def test_after_a_revocation_the_client_joins_again_only_after_the_assignment_that_follows_at_once() -> None:
    watch = JoinWatch("classic", SESSION_S, LIMIT_S)
    watch.revoked()
    watch.joined(100.0)
    assert watch.failed(100.1 + LIMIT_S)
    watch.joined(101.0 + SESSION_S)
    assert watch.handover_until == 101.0 + SESSION_S + HANDOVER_S
    assert not watch.failed(1_000.0)


def test_client_that_fails_while_partitions_are_revoked_leaves_nothing_to_watch() -> None:
    watch = JoinWatch("classic", SESSION_S, LIMIT_S)
    watch.revoked()
    watch.joining(100.0)
    watch.joined(101.0)
    assert not watch.failed(1_000.0)


def test_watch_rests_when_the_client_has_joined_and_hand_overs_are_over() -> None:
    watch = JoinWatch("classic", SESSION_S, LIMIT_S)
    watch.joining(100.0)
    assert not watch.rests(100.0)
    watch.expelled()
    watch.joined(101.0)
    assert not watch.rests(101.0)
    assert watch.rests(101.0 + HANDOVER_S)
    watch.revoked()
    assert not watch.rests(200.0)
    watch.joined(200.0)
    assert not watch.rests(200.0), "it joins again"
    watch.joined(201.0)
    assert watch.rests(201.0)
