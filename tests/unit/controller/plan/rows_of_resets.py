"""Rows for `test_conditions`: ResetOffsets, and a Subscription whose offsets are moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controller.plan.actions import AnyObject
from knative.contract.records import WorkerState
from tests.unit.controller.plan.condition_rows import AWAY, Row, topic
from tests.unit.controller.seek_worlds import GROUP, seen, working
from tests.unit.controller.worlds import CONFIG, NOW, TOPIC, Kafka, channel, reset, subscription

BOTH = (subscription(), channel())
ALL = (reset(), *BOTH)
LATER = NOW + CONFIG.seek_limit_s + 1
AFTER_STOP = "Unknown Stopping: Ready, ConsumerGroupsStopped, OffsetsUpdated, ConsumerGroupsStarted"


def _every(reason: str, status: str = "False") -> str:
    """All conditions say so, from the first one on."""
    if status == "Unknown":
        return f"Unknown {reason}: Ready, RefMapped, ConsumerGroupsStopped, OffsetsUpdated, ConsumerGroupsStarted"
    return (
        f"False {reason}: Ready, RefMapped; "
        f"Unknown {reason}: ConsumerGroupsStopped, OffsetsUpdated, ConsumerGroupsStarted"
    )


def _settled(*objects: AnyObject) -> Callable[[Kafka], object]:
    return lambda kafka: kafka.settle(*objects)


def _busy(kafka: Kafka) -> None:
    """A worker serves it, and does not stop."""
    seen(kafka, working(kafka, WorkerState.RUNNING, ""))
    kafka.settle(*ALL)


def _given_up(kafka: Kafka) -> None:
    _busy(kafka)
    kafka.world = replace(kafka.world, now=LATER)
    kafka.settle(*ALL)


def _steps(*steps: str) -> Callable[[Kafka], object]:
    """These steps are done, and no more."""

    def change(kafka: Kafka) -> None:
        for step in steps:
            (action,) = kafka.decide(*ALL)
            assert type(action).__name__ == step
            kafka.act(action)

    return change


def _rejected(kafka: Kafka) -> None:
    """Kafka does not take the new offsets for too long."""
    _steps(*MOVING)(kafka)
    kafka.world = replace(kafka.world, now=LATER)
    kafka.settle(*ALL, failures={f"group {GROUP}": "no right"})


def _deleted(kafka: Kafka) -> None:
    _busy(kafka)
    kafka.settle(ALL[0], ALL[2])


MOVING = ("RememberSeek", "PublishSubscription", "FindOffsets")
RESETS = [
    Row("new", _every("Pending", "Unknown"), ALL, BOTH),
    Row("Kafka is away", _every("KafkaUnavailable", "Unknown"), ALL, BOTH, more=AWAY),
    Row("its subscription is not served yet", _every("Pending", "Unknown"), ALL),
    Row("not all files are read", _every("Pending", "Unknown"), (reset(ref="nope"), *BOTH), more={"complete": False}),
    Row(
        "waits for another one",
        _every("Pending", "Unknown"),
        (reset("later", to="latest"), *ALL),
        BOTH,
        change=_busy,
    ),
    Row(
        "no such subscription",
        _every("SubscriptionNotFound"),
        (reset(ref="nope"), *BOTH),
        BOTH,
        change=_settled(reset(ref="nope"), *BOTH),
    ),
    Row(
        "no such trigger",
        _every("TriggerNotFound"),
        (reset(ref_kind="Trigger"), *BOTH),
        BOTH,
        change=_settled(reset(ref_kind="Trigger"), *BOTH),
    ),
    Row(
        "a time in the future",
        _every("TimeInFuture"),
        (reset(to="2099-01-01T00:00:00Z"), *BOTH),
        BOTH,
        change=_settled(reset(to="2099-01-01T00:00:00Z"), *BOTH),
    ),
    Row(
        "its topic was created again",
        _every("TopicReplaced"),
        ALL,
        BOTH,
        change=lambda kafka: (topic(TOPIC, id="other")(kafka), kafka.settle(*ALL)),
    ),
    Row("a worker has not stopped it", AFTER_STOP, ALL, BOTH, change=_busy),
    Row(
        "a worker did not stop it",
        "False NotStopped: Ready, ConsumerGroupsStopped; Unknown NotStopped: OffsetsUpdated, ConsumerGroupsStarted",
        ALL,
        BOTH,
        change=_given_up,
    ),
    Row(
        "offsets are moved",
        "Unknown MovingOffsets: Ready, OffsetsUpdated, ConsumerGroupsStarted",
        ALL,
        BOTH,
        change=_steps(*MOVING),
    ),
    Row(
        "Kafka does not take them",
        "False OffsetsNotMoved: Ready, OffsetsUpdated; Unknown OffsetsNotMoved: ConsumerGroupsStarted",
        ALL,
        BOTH,
        change=_rejected,
    ),
    Row(
        "being started",
        "Unknown Starting: Ready, ConsumerGroupsStarted",
        ALL,
        BOTH,
        change=_steps(*MOVING, "MoveOffsets", "RememberSeek"),
    ),
    Row("done", "True OffsetsMoved: Ready", ALL, BOTH, change=_settled(*ALL)),
    Row(
        "changed when it was done",
        "False Immutable: Ready",
        (reset(to="latest", generation=2), *BOTH),
        BOTH,
        change=_settled(*ALL),
    ),
    Row(
        "its subscription is deleted meanwhile",
        "False Deleted: Ready, OffsetsUpdated; Unknown Deleted: ConsumerGroupsStarted",
        (ALL[0], ALL[2]),
        BOTH,
        change=_deleted,
    ),
]
MOVED_SUBSCRIPTION = Row(
    "stopped by a seek", "Unknown OffsetsBeingMoved: Ready, ChannelReady", (*BOTH, ALL[0]), BOTH, change=_busy
)
