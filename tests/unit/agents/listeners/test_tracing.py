"""The spans of started records: each process span is begun once and ended once, whatever becomes of its record."""

from __future__ import annotations

from agents.listeners.tracing import TracingListener
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Settled, Settlement
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import DELIVERED, FinalFailure, SendProblem, Verdict
from knative.ports import Headers
from knative.tracing import ABANDONED

SUBSCRIPTION = Subscription(
    uid="u", generation=1, namespace="ns", name="sub", channel_uid="c", channel="ch", topic="topic",
    dlq_topic="topic.dlq", partitions=1, group="kafka.u", subscriber=Addressable("http://sub.test/x"),
)  # fmt: skip
EVENT: list[tuple[str, bytes | None]] = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


class _Process:
    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], _Attempt] = {}
        self.verdicts: list[str] = []

    def attempt(self, url: str, number: int) -> _Attempt:
        self.attempts[url, number] = _Attempt()
        return self.attempts[url, number]

    def ended(self, verdict: str) -> None:
        self.verdicts.append(verdict)


class _Attempt:
    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []

    def headers(self, stored: Headers) -> Headers:
        return [*stored, ("traceparent", b"mine")]

    def ended(self, status: int, problem: str = "") -> None:
        self.answers.append((status, problem))


class _Trace:
    def __init__(self) -> None:
        self.made: list[_Process] = []

    def receive(self, target: bytes, host: bytes | None, pairs: object) -> _Attempt:
        raise AssertionError("nothing is received here")

    def process(
        self, subscription: Subscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> _Process:
        self.made.append(_Process())
        return self.made[-1]


def _partition(number: int = 0) -> PartitionState:
    return PartitionState("topic", number, OffsetTracker(0))


def _record(partition: PartitionState, offset: int, headers: list[tuple[str, bytes | None]] = EVENT) -> Delivery:
    return Delivery(partition, offset, None, b"", headers, 1)


def _traced() -> tuple[_Trace, TracingListener]:
    trace = _Trace()
    return trace, TracingListener(trace, SUBSCRIPTION)  # type: ignore[arg-type]  # it receives nothing


def _outcome(verdict: Verdict, status: int, problem: SendProblem | None = None) -> Outcome:
    return Outcome(verdict, "http://a", 1, 0.0, 0.0, status, problem)


def test_happy_path_ends_attempt_and_event_in_one_call() -> None:
    trace, listener = _traced()
    record = _record(_partition(), 0)
    listener.started(record)
    assert listener.request(record, "http://a", 1, EVENT) == [*EVENT, ("traceparent", b"mine")]
    listener.delivered(record, "http://a", 202, 0.1, 1.0)

    [process] = trace.made
    assert ([each.answers for each in process.attempts.values()], process.verdicts) == ([[(202, "")]], ["delivered"])
    assert len(listener) == 0


def test_each_request_has_a_span_and_the_event_ends_once() -> None:
    trace, listener = _traced()
    record = _record(_partition(), 0)
    listener.started(record)
    for number, outcome in enumerate(
        (_outcome(FinalFailure(500, "x"), 0, SendProblem.TIMEOUT), _outcome(DELIVERED, 200)), 1
    ):
        listener.request(record, "http://a", number, EVENT)
        listener.attempt(record, outcome)
    listener.settled(record, Settlement(Settled.DEAD_LETTERED), 1.0, 1)

    [process] = trace.made
    assert {key: each.answers for key, each in process.attempts.items()} == {
        ("http://a", 1): [(0, "timeout")],
        ("http://a", 2): [(200, "")],
    }
    assert process.verdicts == ["dead-lettered"]
    assert len(listener) == 0


def test_request_that_is_given_up_was_closed_and_its_event_is_abandoned() -> None:
    trace, listener = _traced()
    record = _record(_partition(), 0)
    listener.started(record)
    listener.request(record, "http://a", 2, EVENT)
    listener.aborted(record)
    listener.abandoned(record)

    [process] = trace.made
    assert ([each.answers for each in process.attempts.values()], process.verdicts) == ([[(0, "closed")]], [ABANDONED])
    assert len(listener) == 0


def test_attempt_that_is_not_made_has_a_span_that_never_ends() -> None:
    trace, listener = _traced()
    record = _record(_partition(), 0)
    listener.started(record)
    listener.request(record, "http://a", 1, EVENT)
    listener.settled(record, Settlement(Settled.DEAD_LETTERED, reason="the record is not a CloudEvent"), 1.0, 0)

    [process] = trace.made
    assert ([each.answers for each in process.attempts.values()], process.verdicts) == ([[]], ["dead-lettered"])
    assert len(listener) == 0
