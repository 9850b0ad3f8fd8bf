"""The conditions that `Ready` is made of, from what the controller and workers report."""

from __future__ import annotations

from dataclasses import replace

from app.operations.contract_snapshot import Contract
from knative.contract.records import BROKER, CHANNEL, SUBSCRIPTION, Channel, ControllerReport, ResourceProblem
from tables.resource_status import conditions_of, resource_statuses
from tests.support.console import CHANNEL as ORDERS
from tests.support.console import SUBSCRIPTION as BILLING
from tests.support.console import worker

NOW_S = worker().time
_BROKER = Channel("b", 1, "demo", "events", "bt", "bt.dlq", 1, kind=BROKER)


def _said(
    kind: str, *problems: ResourceProblem, served: bool = True, broker: Channel = _BROKER
) -> list[tuple[str, str, str]]:
    report = ControllerReport(NOW_S, problems)
    here = Contract((ORDERS, broker), (BILLING,), (worker(),) if served else (), report)
    (status,) = [status for status in resource_statuses(here, NOW_S) if status.kind == kind]
    return [(condition.type, condition.status.value, condition.reason) for condition in conditions_of(status)]


def _true(*types: str) -> list[tuple[str, str, str]]:
    return [(type_, "True", "") for type_ in types]


def test_all_are_true_of_what_is_served_and_has_no_problem() -> None:
    assert _said(SUBSCRIPTION) == _true("ReferencesResolved", "AddedToChannel", "ChannelReady")
    assert _said(CHANNEL) == _true(
        "TopicReady", "ContractPublished", "Addressable", "SubscribersReady", "DeadLetterSinkResolved"
    )
    assert _said(BROKER) == _true("TopicReady", "ContractPublished", "Addressable", "DeadLetterSinkResolved")
    with_secret = replace(_BROKER, secret="ns/name")
    assert ("KafkaSecretReady", "True", "") in _said(BROKER, broker=with_secret)


def test_what_workers_say_is_of_now() -> None:
    assert _said(SUBSCRIPTION, served=False)[-1] == ("ChannelReady", "Unknown", "SubscriberNotServed")
    assert _said(CHANNEL, served=False)[3] == ("SubscribersReady", "Unknown", "SubscriberNotServed")


def test_each_has_what_the_controller_says_of_it() -> None:
    parts = (
        ("ReferencesResolved", "False", "SinkNotFound", "there is none"),
        ("AddedToChannel", "Unknown", "SinkNotFound", "waits"),
    )
    problem = ResourceProblem(SUBSCRIPTION, "demo", "billing", "False", "SinkNotFound", "there is none", parts)
    assert _said(SUBSCRIPTION, problem) == [
        ("ReferencesResolved", "False", "SinkNotFound"),
        ("AddedToChannel", "Unknown", "SinkNotFound"),
        ("ChannelReady", "True", ""),
    ]


def test_nothing_is_guessed_where_only_the_sum_is_known() -> None:
    assert (
        _said(SUBSCRIPTION, ResourceProblem(SUBSCRIPTION, "demo", "billing", "False", "Bad", "of an older one")) == []
    )
