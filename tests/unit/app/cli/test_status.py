"""`penstock status`: rows of what is served, how it does, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.status import all_ready, chosen, rows
from app.operations.contract_snapshot import Contract
from knative.contract.records import (
    Channel,
    ControllerReport,
    ResourceProblem,
    Subscription,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
)
from knative.contract.subscription_stats import FailingDelivery, LastError, SubscriptionStats
from knative.delivery.policy import Addressable
from knative.errors import PenstockError
from knative.filters import from_json


def _contract(workers: tuple[WorkerStatus, ...]) -> Contract:
    channel = Channel("c", 1, "ns", "ch", "topic", "topic.dlq", 2)
    subscription = Subscription(
        "s", 3, "ns", "sub", "c", "ch", "topic", "topic.dlq", 2, "kafka.s", Addressable("http://x/")
    )
    return Contract((channel,), (subscription,), workers)


@pytest.mark.parametrize(
    ("partitions", "generation", "age_s", "ready"),
    [((0, 1), 3, 1, "True"), ((0,), 3, 1, "Unknown"), ((0, 1), 2, 1, "Unknown"), ((0, 1), 3, 60, "Unknown")],
)
def test_fresh_reports_make_ready(partitions: tuple[int, ...], generation: int, age_s: float, ready: str) -> None:
    worker = WorkerStatus("w", 1000.0, "all", {"s": WorkerSubscription(generation, partitions, WorkerState.RUNNING)})
    status = rows(_contract((worker,)), 1000.0 + age_s)
    assert status["subscriptions"][0]["ready"] == ready
    assert status["channels"][0]["ready"] == ready


@pytest.mark.parametrize(("age_s", "expected"), [(1, ["worker w"]), (60, [])])
def test_worker_that_does_not_use_what_has_changed_is_named(age_s: float, expected: list[str]) -> None:
    """What is served is ready all the same."""
    worker = WorkerStatus("w", 1000.0, "all", unused="the password is wrong")
    problems = rows(_contract((worker,)), 1000.0 + age_s)["problems"]
    assert [row["file"] for row in problems] == expected
    for row in problems:
        assert (row["ready"], row["reason"]) == ("True", "ChangesNotUsed")
        assert row["message"] == "the worker does not use changed settings, secrets or code: the password is wrong"


def _remark(kind: str, name: str, ready: str, reason: str, namespace: str = "ns") -> ResourceProblem:
    return ResourceProblem(kind, namespace, name, ready, reason, f"about {name}; mend it")


def _reported(*problems: ResourceProblem, left_out: int = 0) -> Contract:
    worker = WorkerStatus("w", 1000.0, "all", {"s": WorkerSubscription(3, (0, 1), WorkerState.RUNNING)})
    return replace(_contract((worker,)), report=ControllerReport(1000.0, problems, left_out))


def test_status_shows_rejected_objects_that_are_not_served() -> None:
    """An object without a record of the contract has a row too, and a file that is not taken is named."""
    status = rows(
        _reported(
            _remark("File", "a.yaml:4", "False", "FileNotTaken", ""),
            _remark("KafkaChannel", "a-long-one", "False", "TopicNameTooLong"),
            _remark("Subscription", "new", "False", "ChannelNotFound"),
            left_out=2,
        ),
        1001.0,
    )
    reported = [(row["channel"], row["ready"], row["reason"], row["message"]) for row in status["channels"]]
    assert reported == [
        ("ns/a-long-one", "False", "TopicNameTooLong", "about a-long-one; mend it"), ("ns/ch", "True", "", ""),
    ]  # fmt: skip
    rows_ = status["subscriptions"]
    assert [(row["subscription"], row["ready"], row["reason"]) for row in rows_] == [
        ("ns/new", "False", "ChannelNotFound"), ("ns/sub", "True", ""),
    ]  # fmt: skip
    assert rows_[0].keys() == rows_[1].keys()
    assert status["channels"][0].keys() == status["channels"][1].keys()
    assert [(row["file"], row["ready"]) for row in status["problems"]] == [
        ("a.yaml:4", "False"),
        ("(and more)", "False"),
    ]


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_channel_is_ready_when_the_controller_says_so_too(ready: str) -> None:
    """Its subscriptions are served all the same."""
    status = rows(_reported(_remark("KafkaChannel", "ch", ready, "HostTaken")), 1001.0)
    assert [(row["ready"], row["reason"]) for row in status["channels"]] == [(ready, "HostTaken")]
    assert [row["ready"] for row in status["subscriptions"]] == ["True"]


def test_rejected_part_of_a_ready_channel_is_a_note() -> None:
    problem = _remark("KafkaChannel", "ch", "True", "TopicDiffers")
    (row,) = rows(_reported(problem), 1001.0)["channels"]
    assert (row["ready"], row["reason"], row["message"]) == ("True", "TopicDiffers", "about ch; mend it")
    unserved = replace(_contract(()), report=ControllerReport(1000.0, (problem,)))
    (row,) = rows(unserved, 1001.0)["channels"]
    assert (row["ready"], row["reason"]) == ("Unknown", "SubscriberNotServed")


def test_status_says_how_a_subscription_does_over_all_workers() -> None:
    error = LastError(990.0, 503, "the answer was 503", partition=1, offset=7)
    heads = (FailingDelivery(1, 7, 2, 1002.0, "e"),)
    mine = SubscriptionStats(
        in_flight=2, retrying=1, lag=5, oldest=996.0, delivered_per_s=1.5, heads=heads, last_error=error
    )
    row = rows(
        _contract(
            (
                WorkerStatus("a", 1000.0, "all", {"s": WorkerSubscription(3, (1,), WorkerState.RUNNING)}, {"s": mine}),
                WorkerStatus(
                    "b",
                    999.0,
                    "all",
                    {"s": WorkerSubscription(3, (0,), WorkerState.RUNNING)},
                    {"s": SubscriptionStats(lag=2)},
                ),
            )
        ),
        1000.0,
    )["subscriptions"][0]
    assert (row["lag"], row["lag_s"], row["delivered_per_s"], row["in_flight"], row["retrying"]) == (7, 4.0, 1.5, 2, 1)
    assert row["last_error"] == "the answer was 503 (partition 1, offset 7)"
    assert (row["last_error_at"], row["next_attempt"]) == ("1970-01-01T00:16:30.000Z", "1970-01-01T00:16:42.000Z")
    assert row["owners"] == "a: 1, b: 0"


def test_status_of_an_unserved_subscription_has_no_numbers() -> None:
    row = rows(_contract(()), 1000.0)["subscriptions"][0]
    assert [row[name] for name in ("lag", "lag_s", "delivered_per_s", "last_error", "owners")] == [None] * 5


def _with_broker() -> Contract:
    contract = _contract(())
    broker = Channel("b", 1, "ns", "ch", "knative-broker-ns-ch", "dlq", 10, kind="Broker")
    trigger = Subscription(
        "t", 1, "ns", "sub", "b", "ch", "x", "dlq", 10, "kafka.t", Addressable("http://x/"), kind="Trigger",
        filter=from_json({"prefix": {"type": "order."}}),
    )  # fmt: skip
    return replace(contract, channels=(*contract.channels, broker), subscriptions=(*contract.subscriptions, trigger))


def test_brokers_and_triggers_have_tables_of_their_own() -> None:
    """A broker may have the name of a channel, and a trigger that of a subscription."""
    problems = (
        ResourceProblem("Trigger", "ns", "sub", "False", "BrokerNotFound", "about the trigger"),
        ResourceProblem("Broker", "ns", "new", "False", "ConfigMapNotFound", "about the broker"),
        ResourceProblem("Trigger", "ns", "new", "False", "BrokerNotFound", "about the new one"),
    )
    status = rows(replace(_with_broker(), report=ControllerReport(1000.0, problems)), 1000.0)
    assert [row["channel"] for row in status["channels"]] == ["ns/ch"]
    assert [(row["broker"], row["path"]) for row in status["brokers"]] == [("ns/ch", "/ns/ch"), ("ns/new", None)]
    assert [row["message"] for row in status["triggers"]] == ["about the new one", "about the trigger"]
    assert status["triggers"][1]["filter"] == {"prefix": {"type": "order."}}
    assert status["triggers"][1]["broker"] == "ch"
    assert "about the trigger" not in str(status["subscriptions"])
    assert "Trigger ns/sub" in str(status["brokers"][0]["message"])


@pytest.mark.parametrize(
    ("wish", "tables"),
    [
        ("ns/sub", {"subscriptions", "triggers"}),
        ("Trigger/ns/sub", {"triggers"}),
        ("broker/ns/ch", {"brokers"}),
        ("channel/ns/ch", {"channels"}),
        ("subscription/ns/sub", {"subscriptions"}),
    ],
)
def test_kind_chooses_between_two_of_the_same_name(wish: str, tables: set[str]) -> None:
    status = chosen(rows(_with_broker(), 1000.0), [wish])
    assert {table for table, table_rows in status.items() if table_rows} == tables


def test_unknown_name_lists_all_that_are_known() -> None:
    with pytest.raises(PenstockError, match="There is no resource ns/x; known: ns/ch, ns/sub"):
        chosen(rows(_with_broker(), 1000.0), ["ns/x"])


def test_what_is_left_alone_is_shown_and_need_not_be_ready() -> None:
    left = [_remark(kind, "other", "Unknown", "NotOurClass") for kind in ("Broker", "Trigger")]
    status = rows(_reported(*left), 1000.0)
    for table in ("brokers", "triggers"):
        assert [(row["ready"], row["reason"]) for row in status[table]] == [("Unknown", "NotOurClass")]
    assert all_ready(chosen(status, ["ns/other"]))
    assert not all_ready(rows(_reported(*left, _remark("Broker", "b", "Unknown", "TopicBeingCreated")), 1000.0))
