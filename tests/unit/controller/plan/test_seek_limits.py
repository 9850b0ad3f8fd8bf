"""Seeks that are given up, and when a frozen worker or a group without answers holds them up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.plan.actions import (
    AnyObject,
    MoveOffsets,
)
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.seeks import SeekPhase
from tests.unit.controller.seek_worlds import GROUP, OBJECTS, UID, phase, seen, served, working
from tests.unit.controller.worlds import (
    BROKER_TOPIC,
    CONFIG,
    FALSE,
    NOW,
    broker,
    channel,
    condition,
    message,
    reset,
    settled_kafka,
    subscription,
    trigger,
)


@pytest.mark.parametrize(
    ("mine", "other", "members", "moves"),
    [
        (WorkerState.STOPPED, None, 0, True),
        (WorkerState.STOPPED, None, 1, False),  # the worker has left, so this one is frozen
        (WorkerState.STOPPED, WorkerState.RUNNING, 1, True),
        (WorkerState.STOPPED, WorkerState.RUNNING, 2, False),
        (WorkerState.STOPPED, WorkerState.RUNNING, None, False),
        (WorkerState.STOPPED, WorkerState.STARTING, 1, True),
        (WorkerState.UNSUPPORTED, WorkerState.RUNNING, 1, True),
        (WorkerState.UNSUPPORTED, WorkerState.UNSUPPORTED, 0, True),
        # The worker serves none of them, so the member is the frozen one.
        (WorkerState.UNSUPPORTED, WorkerState.UNSUPPORTED, 1, False),
        (WorkerState.STOPPED, WorkerState.UNSUPPORTED, 1, False),
        (WorkerState.STOPPED, WorkerState.SECRET_NOT_TRIED, 1, False),
        (WorkerState.STOPPED, WorkerState.SECRET_NOT_FOUND, 1, False),
        (WorkerState.STOPPED, WorkerState.SECRET_INVALID, 1, False),
    ],
)
def test_trigger_waits_for_a_frozen_worker_that_kafka_still_takes_for_a_member(
    mine: WorkerState, other: WorkerState | None, members: int | None, moves: bool
) -> None:
    objects: list[AnyObject] = [broker(), trigger(), *([trigger("other")] if other is not None else [])]
    kafka, wish = settled_kafka(*objects), reset(ref_kind="Trigger")
    kafka.fanouts[BROKER_TOPIC] = members
    record = kafka.world.subscriptions["t-billing"]
    heard = {record.uid: WorkerSubscription(record.generation, (), mine, "r-again")}
    if other is not None:
        heard["t-other"] = WorkerSubscription(kafka.world.subscriptions["t-other"].generation, (), other)
    frozen = {record.uid: WorkerSubscription(record.generation, (), WorkerState.RUNNING, "")}
    workers = WorkerStatus("w", NOW, "all", heard), WorkerStatus("frozen", NOW, "all", frozen)
    seen(kafka, *workers, silent=frozenset({"frozen"}))
    kafka.settle(*objects, wish)
    assert (phase(kafka) is SeekPhase.DONE) is moves
    assert moves or "the fan-out of topic" in message(kafka.status(wish, *objects))


def test_seek_is_given_up_when_a_worker_does_not_stop() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    kafka.world = replace(kafka.world, now=NOW + CONFIG.seek_limit_s + 1)
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.REFUSED
    assert not kafka.world.subscriptions[UID].stopped
    assert kafka.offsets[GROUP] == {0: 5, 1: 7}
    status = kafka.status(wish, *OBJECTS)
    assert condition(status) == (FALSE, "NotStopped")
    assert "worker w" in message(status)


@pytest.mark.parametrize(("moving", "reason"), [(False, "NotStopped"), (True, "OffsetsNotMoved")])
def test_group_that_cannot_be_observed_is_waited_for_and_given_up(moving: bool, reason: str) -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka))
    for _ in range(2 + moving):  # recorded, stopped, offsets found
        for action in kafka.decide(*OBJECTS, wish):
            kafka.act(action)
    assert phase(kafka) is (SeekPhase.MOVING if moving else SeekPhase.STOPPING)
    kafka.unknown[GROUP] = "describing group g: Kafka does not answer"
    assert kafka.decide(*OBJECTS, wish) == []
    assert "Kafka does not answer" in message(kafka.status(wish, *OBJECTS))
    others = (channel("other"), subscription("another", "other"))
    kafka.settle(*OBJECTS, wish, *others)
    assert "s-another" in kafka.world.subscriptions, "others are served"
    kafka.world = replace(kafka.world, now=NOW + CONFIG.seek_limit_s + 1)
    kafka.settle(*OBJECTS, wish, *others)
    seek = kafka.world.seeks["r-again"]
    assert (seek.phase, seek.reason) == (SeekPhase.REFUSED, reason)
    assert "Kafka does not answer" in seek.message
    assert not kafka.world.subscriptions[UID].stopped


def test_seek_whose_group_cannot_be_observed_can_be_withdrawn() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    kafka.unknown[GROUP] = "away"
    kafka.settle(*OBJECTS)
    assert not kafka.world.subscriptions[UID].stopped
    assert kafka.world.seeks == {}


def test_seek_is_given_up_when_the_new_offsets_cannot_be_looked_up() -> None:
    kafka, wish = served(), reset()
    for _ in range(2):
        for action in kafka.decide(*OBJECTS, wish):
            kafka.act(action)
    late, failures = NOW + CONFIG.seek_limit_s + 1, {"seek r-again": "looking up offsets of t: no leader"}
    kafka.settle(*OBJECTS, wish, now=late, failures=failures)
    status = kafka.status(wish, *OBJECTS)
    assert condition(status) == condition(status, "OffsetsUpdated") == (FALSE, "OffsetsNotMoved")
    assert "the offsets could not be looked up: looking up offsets of t: no leader" in message(status)
    assert not kafka.world.subscriptions[UID].stopped


def test_seek_is_given_up_when_somebody_else_keeps_committing() -> None:
    kafka, wish = served(), reset()
    for _ in range(20):
        for action in kafka.decide(*OBJECTS, wish):
            kafka.act(action)
            if isinstance(action, MoveOffsets):
                kafka.offsets[GROUP][0] = 3
        kafka.world = replace(kafka.world, now=kafka.world.now + CONFIG.seek_limit_s / 10)
    seek = kafka.world.seeks["r-again"]
    assert (seek.phase, seek.reason) == (SeekPhase.REFUSED, "OffsetsNotMoved")
    assert f"group {GROUP} has other offsets than those that were committed" in seek.message
    assert not kafka.world.subscriptions[UID].stopped


def test_time_without_a_leader_does_not_count() -> None:
    kafka, wish = served(), reset()
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*OBJECTS, wish)
    late = NOW + 10 * CONFIG.seek_limit_s
    kafka.world = replace(kafka.world, now=late, leads_since=late)
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.STOPPING
    seen(kafka, working(kafka))
    for action in kafka.decide(*OBJECTS, wish):
        kafka.act(action)
    kafka.world = replace(kafka.world, now=2 * late, leads_since=late)
    kafka.settle(*OBJECTS, wish)
    assert phase(kafka) is SeekPhase.DONE, "late, but nothing is in its way"
