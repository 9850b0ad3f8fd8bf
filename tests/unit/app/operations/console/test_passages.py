"""What became of one event for one subscription."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.operations.console.passages import is_letter_of, passage
from app.operations.dead_letters.letters import DeadLetter
from app.operations.lag import GroupOffset
from knative.contract.records import Subscription
from knative.contract.subscription_stats import FailingDelivery
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.filters import from_json
from tables.kafka.topic_reader import StoredRecord
from web.console.acts import Verdict

_RECORD = StoredRecord(
    "t", 1, 7, 0, None,
    (("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"order.created"), ("ce_specversion", b"1.0")), b"",
)  # fmt: skip
_SUBSCRIPTION = Subscription("u", 1, "ns", "a", "c", "ch", "t", "t.dlq", 2, "kafka.u", Addressable("http://x/"))
_OTHER_TYPE = replace(_SUBSCRIPTION, filter=from_json({"exact": {"type": "invoice"}}))


def _position(committed: int | None, *settled: int, **attempts: int) -> GroupOffset:
    tried = {int(name[1:]): count for name, count in attempts.items()}
    return GroupOffset("ns/a", "ns/ch", "kafka.u", "t", 1, committed, 0, 20, frozenset(settled), tried)


def _letter(**changes: str) -> DeadLetter:
    said = {"topic": "t", "partition": "1", "offset": "7", "subscription": "ns/a", "subscription-uid": "u", **changes}
    said["reason"] = "the answer was 400"
    return DeadLetter(
        StoredRecord(
            "t.dlq", 0, 3, 0, None, tuple((f"penstock-{name}", text.encode()) for name, text in said.items()), b""
        )
    )


@pytest.mark.parametrize(
    ("position", "verdict", "why"),
    [
        (_position(8), Verdict.DELIVERED, "because it has no dead letter"),
        (_position(7), Verdict.WAITING, "It is the next event of its partition, by the last commit."),
        (_position(3), Verdict.WAITING, "At most 4 events of its partition are before it"),
        (_position(3, 7), Verdict.DELIVERED, "The event is settled"),
        (_position(7, o7=2), Verdict.RETRYING, "2 attempts have failed."),
        (_position(None), Verdict.WAITING, "At most 7 events"),
        (None, Verdict.UNKNOWN, "Kafka did not return the offsets"),
    ],
)
def test_offsets_say_how_far_it_is(position: GroupOffset | None, verdict: Verdict, why: str) -> None:
    outcome = passage(_RECORD, _SUBSCRIPTION, position, [], None)
    assert outcome.verdict is verdict
    assert why in outcome.why


def test_without_all_dead_letters_nobody_knows_that_it_was_delivered() -> None:
    for position, verdict in (
        (_position(8), Verdict.UNKNOWN),
        (_position(3, 7), Verdict.UNKNOWN),
        (_position(7), Verdict.WAITING),
    ):
        outcome = passage(_RECORD, _SUBSCRIPTION, position, [], None, is_whole=False)
        assert outcome.verdict is verdict
        assert ("not all dead letters could be read" in outcome.why) is (verdict is Verdict.UNKNOWN)
    assert passage(_RECORD, _SUBSCRIPTION, _position(8), [], (_letter(), None), is_whole=False).letter == "t.dlq/0/3"


def test_what_settled_means_depends_on_the_subscription() -> None:
    dropping = replace(_SUBSCRIPTION, exhausted=OnRetriesExhausted.IGNORE)
    sinking = replace(_SUBSCRIPTION, delivery=DeliverySpec(dead_letter_sink=Addressable("http://sink/")))
    assert "or dropped when its retries were used up" in passage(_RECORD, dropping, _position(8), [], None).why
    assert "or sent to the dead letter sink http://sink/" in passage(_RECORD, sinking, _position(8), [], None).why


def test_delivery_that_fails_says_when_it_is_tried_again() -> None:
    heads = [FailingDelivery(0, 7, 9), FailingDelivery(1, 7, 3, 1_800_000_000.0)]
    outcome = passage(_RECORD, _SUBSCRIPTION, _position(7), heads, None)
    assert (outcome.verdict, outcome.why) == (
        Verdict.RETRYING,
        "3 attempts have failed. The next attempt is at 2027-01-15T08:00:00Z.",
    )


def test_filter_says_why_it_does_not_match() -> None:
    for position in (_position(8), _position(3)):
        outcome = passage(_RECORD, _OTHER_TYPE, position, [], None)
        assert outcome.verdict is Verdict.FILTERED
        assert outcome.why.startswith("The event does not match: exact: type = ")


def test_dead_letter_counts_first() -> None:
    letter = _letter()
    outcome = passage(_RECORD, _SUBSCRIPTION, _position(8), [], (letter, None))
    assert (outcome.verdict, outcome.letter) == (Verdict.LETTER, "t.dlq/0/3")
    assert outcome.why == "The event is a dead letter: the answer was 400."
    again = passage(_RECORD, _SUBSCRIPTION, _position(8), [], (letter, "2026-01-01T00:00:00Z"))
    assert (again.verdict, again.letter) == (Verdict.REDRIVEN, "t.dlq/0/3")


@pytest.mark.parametrize(
    ("changes", "is_its"),
    [
        ({}, True),
        ({"subscription-uid": "before"}, True),  # deleted and applied again under its name
        ({"subscription": "ns/b", "subscription-uid": "v"}, False),
        ({"offset": "8"}, False),
        ({"partition": "0"}, False),
        ({"topic": "other"}, False),
    ],
)
def test_letter_is_of_one_event_and_one_subscription(changes: dict[str, str], is_its: bool) -> None:
    assert is_letter_of(_letter(**changes), _RECORD, _SUBSCRIPTION) is is_its
