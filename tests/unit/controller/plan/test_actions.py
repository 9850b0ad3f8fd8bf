"""What each action is about: failures are remembered under it, and conditions find them there."""

from __future__ import annotations

import pytest

from controller.plan.actions import (
    Action,
    AddPartitions,
    AlterTopicConfig,
    CancelRemoval,
    CommitStart,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    FindOffsets,
    Forget,
    ForgetSeek,
    MakeRoom,
    MoveOffsets,
    PublishChannel,
    PublishSubscription,
    RecordCreations,
    Remember,
    RememberSeek,
    Retract,
    WriteStatus,
    contract_target,
)
from knative.contract import records
from knative.contract.leader_state import Removal
from knative.contract.seeks import Seek, SeekPhase
from knative.delivery.policy import Addressable
from knative.resources.values import Start

CHANNEL = records.Channel("u", 1, "ns", "orders", "t", "t.dlq", 1)
SUBSCRIPTION = records.Subscription(
    "u", 1, "ns", "billing", "c", "orders", "t", "t.dlq", 1, "g", Addressable("http://h/")
)
SEEK = Seek("q", "", "Subscription", "ns", "billing", "+1", SeekPhase.STOPPING, 0.0)


ROWS: list[tuple[Action, str]] = [
    (CreateTopic("t", 1, 1, ()), "topic t"),
    (AlterTopicConfig("t", ()), "topic t"),
    (MakeRoom("t", ()), "room in topic t"),
    (AddPartitions("t", 2), "topic t"),
    (DeleteTopic("t"), "topic t"),
    (CommitStart("g", "t", (0,), Start.LATEST), "group g"),
    (DeleteGroup("g"), "group g"),
    (PublishChannel(CHANNEL), contract_target("u")),
    (PublishSubscription(SUBSCRIPTION), contract_target("u")),
    (Retract("u"), contract_target("u")),
    (Remember(Removal("u", "KafkaChannel", "ns/orders", "t")), "removal u"),
    (Forget("u"), "removal u"),
    (CancelRemoval("u"), "removal u"),
    (RecordCreations(()), "creations"),
    (RememberSeek(SEEK), "seek q"),
    (FindOffsets(SEEK, 1), "seek q"),
    (ForgetSeek("q"), "seek q"),
    (MoveOffsets("g", "t", ()), "group g"),
    (WriteStatus("KafkaChannel", "ns", "orders", "u", 1, (), {}), "status KafkaChannel ns/orders"),
]


@pytest.mark.parametrize(("action", "target"), ROWS)
def test_action_has_its_target(action: Action, target: str) -> None:
    assert action.target == target


def test_no_action_is_left_out_above() -> None:
    assert {type(action).__name__ for action, _ in ROWS} == {kind.__name__ for kind in Action.__subclasses__()}
