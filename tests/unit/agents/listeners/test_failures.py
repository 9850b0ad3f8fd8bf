"""What is remembered of failures: the last error, and the deliveries that wait for their retry."""

from __future__ import annotations

from agents.listeners.failures import Failures
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.contract.subscription_stats import FailingDelivery, LastError
from knative.delivery.attempt import Outcome, Settled, Settlement
from knative.delivery.verdicts import FinalFailure, RetryableFailure


def partition(number: int = 0, start: int = 10) -> PartitionState:
    return PartitionState("t", number, OffsetTracker(start))


def records(owner: PartitionState, *stamps_ms: int, key: bytes | None = None) -> list[Delivery]:
    first = owner.tracker.fetched
    made = [Delivery(owner, first + i, key, b"v", [], 100, stamp) for i, stamp in enumerate(stamps_ms)]
    owner.fetched_count += len(made)
    owner.fetched_bytes += 100 * len(made)
    return made


def outcome(attempts: int, code: int = 503, body: bytes = b"later", at: float = 100.0) -> Outcome:
    return Outcome(RetryableFailure(code, f"the answer was {code}", body), "http://s/", attempts, at, 0.1)


def test_last_error_and_the_failing_deliveries() -> None:
    failures, owner = Failures(), partition(3)
    first, second, third = records(owner, 1, 1, 1)
    first.headers = [("ce_id", b"e1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]

    failures.failed(first, outcome(2), 4.0)
    failures.failed(second, outcome(1, at=101.0), 1.0)
    failures.failed(third, Outcome(FinalFailure(400, "no", b"\xff" * 2_000), "http://s/", 1, 102.0, 0.1), None)

    assert failures.retrying == 2
    assert failures.failing() == (FailingDelivery(3, 10, 2, 104.0, "e1"), FailingDelivery(3, 11, 1, 102.0, ""))
    assert failures.last_error == LastError(102.0, 400, "no", "\ufffd" * 200, "http://s/", 3, 12)
    failures.trying(first)
    failures.failed(second, outcome(2), None)
    assert [head.next_attempt for head in failures.failing()] == [0, 0]
    failures.settled(first, Settlement(Settled.DELIVERED), 1.0, 2)
    failures.settled(second, Settlement(Settled.DEAD_LETTERED), 1.0, 2)
    failures.abandoned(third)
    assert (failures.retrying, failures.failing(), failures.not_delivered) == (0, (), 1)


def test_failing_deliveries_are_bounded_and_those_with_the_most_attempts() -> None:
    failures, owner = Failures(), partition()
    for number, record in enumerate(records(owner, *[1] * 50)):
        failures.failed(record, outcome(number + 1), 1.0)

    assert [head.attempts for head in failures.failing(3)] == [50, 49, 48]
    assert failures.retrying == 50
