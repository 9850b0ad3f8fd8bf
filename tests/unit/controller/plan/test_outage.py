"""Statuses while Kafka is away and nothing is known of what an object has there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plan.actions import WriteStatus
from controller.plan.outage import _PARTS, outage_status
from controller.status.cluster.changes import status_document
from knative.resources.conditions import Condition, ConditionStatus

SINCE = "2026-11-01T00:00:00Z"
WHY = "kafka:9092: connection refused"
AWAY = ("Unknown", "KafkaUnavailable")
#: Conditions that say nothing of Kafka.
STAY = {
    "KafkaSecretReady",
    "Addressable",
    "DeadLetterSinkResolved",
    "ReferencesResolved",
    "SubscriberResolved",
    "DependencyReady",
}
KINDS = sorted(_PARTS.keys() - {"ResetOffset"})


def live(kind: str, generation: int = 3, **body: Any) -> dict[str, Any]:
    """The status of an object that is ready."""
    types = ("Ready", *_PARTS[kind])
    conditions = [{"type": type_, "status": "True", "lastTransitionTime": SINCE} for type_ in types]
    return {"observedGeneration": generation, "conditions": conditions, **body}


def decide(kind: str, status: dict[str, Any], generation: int = 3) -> WriteStatus | None:
    return outage_status((kind, "ns", "one"), "u", generation, status, WHY)


def said(status: WriteStatus | None) -> dict[str, tuple[str, str]]:
    assert status is not None
    assert all(WHY in condition.message for condition in status.conditions if condition.reason == "KafkaUnavailable")
    return {condition.type: (condition.status.value, condition.reason) for condition in status.conditions}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_object_says_of_kafka_is_not_known_any_more(kind: str) -> None:
    conditions = said(decide(kind, live(kind)))
    assert conditions == {type_: ("True", "") if type_ in STAY else AWAY for type_ in ("Ready", *_PARTS[kind])}


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_of_another_generation_are_not_those_of_this_one(kind: str) -> None:
    assert set(said(decide(kind, live(kind, generation=2))).values()) == {AWAY}
    assert set(said(decide(kind, {})).values()) == {AWAY}, "a new object"


def test_broker_without_a_secret_of_its_own_says_nothing_of_one() -> None:
    status = live("Broker")
    status["conditions"] = [condition for condition in status["conditions"] if condition["type"] != "KafkaSecretReady"]
    assert said(decide("Broker", status)).keys() == {"Ready", *_PARTS["Broker"]} - {"KafkaSecretReady"}


def test_false_condition_that_says_nothing_of_kafka_decides() -> None:
    status = live("KafkaChannel")
    status["conditions"][-1] |= {"status": "False", "reason": "DeadLetterSinkNotResolved", "message": "there is none"}
    assert said(decide("KafkaChannel", status))["Ready"] == ("False", "DeadLetterSinkNotResolved")


def test_addresses_and_names_stay_and_subscribers_are_not_ready() -> None:
    address = {"url": "http://orders.ns.svc.cluster.local"}
    rows = [{"uid": "s1", "observedGeneration": 2, "ready": "True"}]
    decision = decide("KafkaChannel", live("KafkaChannel", address=address, subscribers=rows))
    assert decision is not None
    (row,) = decision.body["subscribers"]
    assert decision.body == {"address": address, "subscribers": [row]}
    assert (row.pop("ready"), WHY in row.pop("message")) == ("Unknown", True)
    assert row == {"uid": "s1", "observedGeneration": 2}


def test_steps_of_a_reset_offset_that_were_made_stay() -> None:
    status = live("ResetOffset", topic="t", group="g")
    for condition in status["conditions"]:
        if condition["type"] in ("Ready", "OffsetsUpdated", "ConsumerGroupsStarted"):
            condition |= {"status": "Unknown", "reason": "MovingOffsets", "message": "in progress"}
    done = {"RefMapped": ("True", ""), "ConsumerGroupsStopped": ("True", "")}
    decision = decide("ResetOffset", status)
    assert said(decision) == {**done, **dict.fromkeys(("Ready", "OffsetsUpdated", "ConsumerGroupsStarted"), AWAY)}
    assert decision is not None
    assert decision.body == {"topic": "t", "group": "g"}
    assert set(said(decide("ResetOffset", {})).values()) == {AWAY}, "a new one"


_STATUSES = st.sampled_from(ConditionStatus)
_REASONS = st.sampled_from(["", "KafkaUnavailable", "TopicDiffers"])


@st.composite
def statuses(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A kind and a status that an object of it may have."""
    kind = draw(st.sampled_from(sorted(_PARTS)))
    types = draw(st.lists(st.sampled_from(("Ready", *_PARTS[kind])), unique=True))
    conditions = [Condition(type_, draw(_STATUSES), draw(_REASONS), "m", SINCE).as_dict() for type_ in types]
    bodies: list[dict[str, Any]] = [{}, {"address": {"url": "u"}}, {"subscribers": [{"uid": "s", "ready": "True"}]}]
    body = draw(st.sampled_from(bodies))
    return kind, {"observedGeneration": draw(st.integers(2, 3)), "conditions": conditions, **body}


@given(statuses())
def test_what_is_written_once_is_not_written_again(case: tuple[str, dict[str, Any]]) -> None:
    kind, before = case
    decision = decide(kind, before)
    if decision is not None:
        written = status_document(decision, before, 0.0)
        assert written != before
        assert written.keys() == before.keys()
        assert decide(kind, written) is None
