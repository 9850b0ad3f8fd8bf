"""What people name on the command line: labels, and names that are not unique."""

from __future__ import annotations

import pytest

from app.operations.contract_snapshot import (
    Contract,
    choose_channel,
    choose_subscriptions,
    has_subscription,
    in_namespace,
    label_of,
)
from knative.contract.records import Channel, ControllerReport, ResourceProblem, Subscription
from knative.delivery.policy import Addressable
from knative.errors import PenstockError, UsageError


def _channel(uid: str, name: str, kind: str) -> Channel:
    return Channel(uid, 1, "ns", name, f"t-{uid}", f"t-{uid}.dlq", 1, kind=kind)


def _subscription(uid: str, name: str, of: Channel, kind: str) -> Subscription:
    to = Addressable("http://s/")
    return Subscription(uid, 1, "ns", name, of.uid, of.name, of.topic, of.dlq_topic, 1, f"kafka.{uid}", to, kind=kind)


BROKER, CHANNEL = _channel("b", "orders", "Broker"), _channel("c", "orders", "KafkaChannel")
MAIN = _channel("m", "main", "Broker")
CONTRACT = Contract(
    (BROKER, CHANNEL, MAIN),
    (
        _subscription("t", "bill", BROKER, "Trigger"),
        _subscription("s", "bill", CHANNEL, "Subscription"),
        _subscription("all", "all", MAIN, "Trigger"),
    ),
    (),
    None,
)


@pytest.mark.parametrize(
    ("wish", "uid"),
    [
        ("KafkaChannel/ns/orders", "c"),
        ("channel/ns/orders", "c"),
        ("Broker/ns/orders", "b"),
        ("ns/broker:orders", "b"),
        ("ns/main", "m"),
        ("ns/broker:main", "m"),
    ],
)
def test_name_chooses_a_channel_or_a_broker(wish: str, uid: str) -> None:
    assert choose_channel(CONTRACT, wish).uid == uid


@pytest.mark.parametrize(
    ("wish", "channel", "uids"),
    [
        ("", "", ["t", "s", "all"]),
        ("ns/bill", "", ["s"]),
        ("ns/trigger:bill", "", ["t"]),
        ("trigger/ns/bill", "", ["t"]),
        ("ns/all", "", ["all"]),
        ("ns/trigger:all", "", ["all"]),
        ("", "ns/broker:orders", ["t"]),
        ("ns/bill", "ns/broker:orders", []),
    ],
)
def test_names_choose_subscriptions_and_triggers(wish: str, channel: str, uids: list[str]) -> None:
    assert [subscription.uid for subscription in choose_subscriptions(CONTRACT, wish, channel)] == uids
    assert not wish or has_subscription(CONTRACT, wish)


def test_trigger_has_a_label_with_its_kind() -> None:
    assert label_of(CONTRACT, "Trigger/ns/bill") == "ns/trigger:bill"
    assert label_of(CONTRACT, "ns/gone") == "ns/gone"


def test_name_of_a_channel_and_a_broker_needs_its_kind() -> None:
    with pytest.raises(UsageError, match="A channel and a broker have the name ns/orders") as raised:
        choose_channel(CONTRACT, "ns/orders")
    assert raised.value.hint == "Write KafkaChannel/ns/orders or Broker/ns/orders."


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PenstockError, match=r"known: ns/orders, ns/main"):
        choose_channel(CONTRACT, "ns/none")
    with pytest.raises(PenstockError, match=r"known: ns/bill, ns/all\."):
        choose_subscriptions(CONTRACT, "ns/none")


def _problem(kind: str, namespace: str) -> ResourceProblem:
    return ResourceProblem(kind, namespace, "x", "False", "SpecInvalid", "")


def test_namespace_has_its_own_resources_and_problems_and_those_of_files() -> None:
    other = Channel("o", 1, "other", "orders", "t-o", "t-o.dlq", 1)
    problems = (_problem("File", ""), _problem("Broker", "ns"), _problem("Trigger", "rejected"))
    contract = Contract((*CONTRACT.channels, other), CONTRACT.subscriptions, (), ControllerReport(1.0, problems))
    assert in_namespace(contract, "") == contract
    only = in_namespace(contract, "other")
    assert only.records == (other,)
    assert only.report is not None
    assert [problem.kind for problem in only.report.problems] == ["File"]
    rejected = in_namespace(contract, "rejected")
    assert rejected.records == ()
    assert rejected.report is not None
    assert [problem.kind for problem in rejected.report.problems] == ["File", "Trigger"]
    with pytest.raises(
        PenstockError, match="The namespace nothing has no channels or subscriptions; known: ns, other, rejected"
    ) as error:
        in_namespace(contract, "nothing")
    assert error.value.hint == "Choose another namespace with --namespace, or use -A for all namespaces."
