"""The contract's table, and when a subscriber is ready."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.codec import UnknownSchema
from knative.contract.records import (
    Channel,
    ControllerReport,
    RemovalRequest,
    ResourceProblem,
    SubscriberStatus,
    Subscription,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
)
from knative.contract.seeks import SeekRequest
from knative.delivery.policy import Addressable, BackoffPolicy, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from knative.resources.conditions import Condition, ConditionStatus
from tables.contract_table import ContractTable, decode_entry, encode_entry
from tables.status_table import (
    REPORT_KEY,
    StatusTable,
    decode_status,
    encode_report,
    encode_request,
    encode_status,
    serving,
    subscriber_status,
)

SUBSCRIPTION = Subscription("u1", 3, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
CHANNEL = Channel("c1", 2, "ns", "ch", "t", "t.dlq", 4, ("a.example", "b.example"))
NOW = 1_000.0

destinations = st.builds(Addressable, uri=st.text(max_size=20), ca_certs=st.text(max_size=20))
deliveries = st.builds(
    DeliverySpec,
    retry=st.integers(0, 99),
    backoff_policy=st.sampled_from(BackoffPolicy),
    backoff_delay_s=st.floats(0, 1e6),
    timeout_s=st.floats(0, 1e6),
    retry_after_max_s=st.none() | st.floats(0, 1e6),
    dead_letter_sink=st.none() | destinations,
)


@given(
    delivery=deliveries,
    subscriber=destinations,
    reply=st.none() | destinations,
    order=st.sampled_from(DeliveryOrder),
    exhausted=st.sampled_from(OnRetriesExhausted),
)
def test_subscription_round_trip(
    delivery: DeliverySpec,
    subscriber: Addressable,
    reply: Addressable | None,
    order: DeliveryOrder,
    exhausted: OnRetriesExhausted,
) -> None:
    subscription = replace(
        SUBSCRIPTION, delivery=delivery, subscriber=subscriber, reply=reply, order=order, exhausted=exhausted
    )
    assert decode_entry(encode_entry(subscription)) == subscription


def test_channel_round_trip() -> None:
    assert decode_entry(encode_entry(CHANNEL)) == CHANNEL


def test_fields_of_later_versions_are_ignored_newer_schemas_are_not_read() -> None:
    data = orjson.loads(encode_entry(CHANNEL))
    data["channel"]["colour"] = "blue"
    assert decode_entry(orjson.dumps(data)) == CHANNEL
    with pytest.raises(UnknownSchema):
        decode_entry(orjson.dumps({**data, "schema": 3}))


def _crashed(problem: BaseException) -> None:
    pytest.fail(str(problem))


def contract() -> tuple[ContractTable, list[int]]:
    reported: list[int] = []
    table = ContractTable("t", {}, crashed=_crashed)
    table.on_change(lambda: reported.append(1))
    table._caught_up()
    reported.clear()
    return table, reported


def test_the_table_follows_the_topic() -> None:
    table, reported = contract()
    table.apply([(b"c1", encode_entry(CHANNEL), 0), (b"u1", encode_entry(SUBSCRIPTION), 0)])
    assert (table.channels, table.subscriptions) == ({"c1": CHANNEL}, {"u1": SUBSCRIPTION})
    table.apply([(b"u1", encode_entry(SUBSCRIPTION), 0)])
    assert len(reported) == 1, "the same again is no change"
    table.apply([(b"u1", None, 0)])
    assert (table.subscriptions, len(reported)) == ({}, 2)


@pytest.mark.parametrize("junk", [b"", b"{", b"null", b"[]", b'{"schema":99}', b'{"schema":1,"what":"channel"}'])
def test_junk_and_newer_schemas_leave_the_last_good_record(junk: bytes) -> None:
    table, _ = contract()
    table.apply([(b"c1", encode_entry(CHANNEL), 0)])
    table.apply([(b"c1", junk, 0)])
    assert table.channels == {"c1": CHANNEL}
    assert "c1" in table.problem
    table.apply([(b"c1", encode_entry(replace(CHANNEL, generation=3)), 0)])
    assert table.problem == ""


def test_an_older_generation_does_not_come_back() -> None:
    table, _ = contract()
    table.apply([(b"u1", encode_entry(SUBSCRIPTION), 0)])
    table.apply([(b"u1", encode_entry(replace(SUBSCRIPTION, generation=2)), 0)])
    assert table.subscriptions["u1"].generation == 3


def _needing(subscription: Subscription, *features: str) -> bytes:
    record = {**orjson.loads(encode_entry(subscription)), "schema": 2, "needs": list(features)}
    return orjson.dumps(record)


def test_a_subscription_that_needs_a_newer_version_is_not_served_and_the_others_are() -> None:
    """Its last good record would deliver by rules that are not in force any more."""
    table, reported = contract()
    other = replace(SUBSCRIPTION, uid="u2", name="other")
    table.apply([(b"u1", encode_entry(SUBSCRIPTION), 0), (b"u2", encode_entry(other), 0)])
    changed = replace(SUBSCRIPTION, generation=4)
    table.apply([(b"u1", _needing(changed, "colour"), 0)])
    assert (table.subscriptions, table.problem) == ({"u2": other}, "")
    assert table.unsupported["u1"].status == WorkerSubscription(
        4, (), WorkerState.UNSUPPORTED, "needs colour, which this version does not know; update this worker"
    )
    assert table.unsupported_text.startswith("Subscription ns/sub needs colour, which")
    table.apply([(b"u1", _needing(changed, "colour"), 0)])
    table.apply([(b"u1", encode_entry(SUBSCRIPTION), 0)])
    assert len(reported) == 2, "the same again is no change, and an older generation does not come back"
    assert list(table.subscriptions) == ["u2"]
    table.apply([(b"u1", encode_entry(replace(changed, generation=5)), 0)])
    assert (table.subscriptions["u1"].generation, table.unsupported) == (5, {})
    table.apply([(b"u1", _needing(replace(changed, generation=6), "colour"), 0), (b"u1", None, 0)])
    assert (list(table.subscriptions), table.unsupported, table.unsupported_text) == (["u2"], {}, "")


@pytest.mark.parametrize("needs", [b"5", b"null"])
def test_needs_that_cannot_be_read_leave_the_last_good_record(needs: bytes) -> None:
    table, _ = contract()
    table.apply([(b"u1", encode_entry(SUBSCRIPTION), 0)])
    table.apply([(b"u1", _needing(SUBSCRIPTION).replace(b"[]", needs), 0)])
    assert (table.subscriptions, table.unsupported) == ({"u1": SUBSCRIPTION}, {})
    assert "u1" in table.problem


OLD = "needs colour, which this version does not know; update this worker"


def old_worker(name: str, age: float, generation: int) -> WorkerStatus:
    return WorkerStatus(
        name, NOW - age, "all", {"u1": WorkerSubscription(generation, (), WorkerState.UNSUPPORTED, OLD)}
    )


@pytest.mark.parametrize(
    ("workers", "ready", "message"),
    [
        ((), "False", f"old {OLD}"),
        ((0, 1), "False", f"old {OLD}"),
        ((0, 1, 2, 3), "True", f"old {OLD}. Other workers serve all partitions"),
    ],
)
def test_a_worker_that_is_too_old_is_named(workers: tuple[int, ...], ready: str, message: str) -> None:
    others = [worker("new", 1, 3, *workers)] if workers else []
    status = subscriber_status(SUBSCRIPTION, [old_worker("old", 1, 3), *others], NOW)
    assert (status.ready, status.message) == (ready, message)
    assert serving("Subscribed", status).reason == "WorkerTooOld"
    fresh = subscriber_status(SUBSCRIPTION, [old_worker("old", 11, 3), *others], NOW)
    assert (fresh.reason, "old" in fresh.message) == ("", False)


def worker(name: str, age: float, generation: int, *partitions: int, failed: str = "") -> WorkerStatus:
    state = WorkerState.FAILED if failed else WorkerState.RUNNING
    return WorkerStatus(name, NOW - age, "all", {"u1": WorkerSubscription(generation, partitions, state, failed)})


@pytest.mark.parametrize(
    ("workers", "ready", "message"),
    [
        ([], "Unknown", "no worker"),
        ([worker("a", 1, 3, 0, 1, 2, 3)], "True", ""),
        ([worker("a", 1, 3, 0, 1), worker("b", 1, 3, 2, 3)], "True", ""),
        ([worker("a", 1, 3, 0, 1), worker("b", 11, 3, 2, 3)], "Unknown", "without an owner yet: 2, 3"),
        ([worker("a", 11, 3, 0, 1, 2, 3)], "Unknown", "no worker"),
        ([worker("a", 1, 2, 0, 1, 2, 3)], "Unknown", "no worker has applied generation 3"),
        ([worker("a", 1, 3), worker("b", 1, 3, 0, 1, 2)], "Unknown", "without an owner yet: 3"),
        ([worker("a", 1, 3, 0, 1, 2, 3, failed="partition 2: gone")], "False", "a: failed: partition 2: gone"),
    ],
)
def test_ready(workers: list[WorkerStatus], ready: str, message: str) -> None:
    status = subscriber_status(SUBSCRIPTION, workers, NOW)
    assert (status.uid, status.observed_generation, status.ready) == ("u1", 3, ready)
    assert message in status.message


def test_status_round_trip_and_goodbye() -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    status = worker("a", 1, 3, 0, 1)
    assert decode_status(encode_status(status)) == status
    table.apply([(b"a", encode_status(status), 0), (b"b", b"junk", 0)])
    assert table.workers == {"a": status}
    table.apply([(b"a", None, 0)])
    assert table.workers == {}


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("starting", WorkerState.STARTING, ""),
        ("running", WorkerState.RUNNING, ""),
        ("waiting for Kafka", WorkerState.WAITING_FOR_KAFKA, ""),
        ("failed: partition 2: gone", WorkerState.FAILED, "partition 2: gone"),
        (f"unsupported: {OLD}", WorkerState.UNSUPPORTED, OLD),
    ],
)
def test_a_workers_state_in_the_record(text: str, state: WorkerState, reason: str) -> None:
    status = WorkerStatus("a", NOW, "all", {"u1": WorkerSubscription(1, (0,), state, reason)})
    value = encode_status(status)
    assert orjson.loads(value)["subscriptions"] == {"u1": {"generation": 1, "partitions": [0], "state": text}}
    assert decode_status(value) == status


def test_a_state_of_another_version_does_not_make_a_subscriber_unready() -> None:
    value = encode_status(worker("a", 0, 3, 0, 1, 2, 3)).replace(b'"running"', b'"catching up: 3 of 4"')
    status = decode_status(value)
    assert isinstance(status, WorkerStatus)
    assert subscriber_status(SUBSCRIPTION, [status], NOW).ready == "True"


def test_the_controllers_report_is_not_a_worker_status() -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    problem = ResourceProblem(
        "Subscription", "ns", "new", "False", "ChannelNotFound", "there is no KafkaChannel 'x'; add it"
    )
    report = ControllerReport(NOW, (problem,), 3)
    assert decode_status(encode_report(report)) == report
    table.apply([(REPORT_KEY, encode_report(report), 0)])
    assert table.report == report
    assert table.workers == {}
    table.apply([(REPORT_KEY, None, 0)])
    assert table.report is None


REMOVAL = RemovalRequest("one", 1.0)
SEEK = SeekRequest("one", "Trigger", "ns", "audit", "latest", 1.0)


@pytest.mark.parametrize("request_", [REMOVAL, SEEK])
@pytest.mark.parametrize(
    "then",
    [None, b"junk", b'{"schema": 99}', *(encode_request(one)[1] for one in (REMOVAL, SEEK, RemovalRequest("b", 1.0)))],
)
def test_a_request_is_kept_under_its_own_key_until_another_record_replaces_it(
    request_: RemovalRequest | SeekRequest, then: bytes | None
) -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    key, value = encode_request(request_)
    kept = table.seek_requests if isinstance(request_, SeekRequest) else table.requests
    table.apply([(key, value, 0)])
    assert kept == {"one": request_}
    table.apply([(key, then, 1)])
    assert kept == ({"one": request_} if then == value else {})
    assert len(table.requests) + len(table.seek_requests) == len(kept)


@pytest.mark.parametrize(
    ("ready", "message", "condition"),
    [
        ("True", "", Condition("ChannelReady", ConditionStatus.TRUE)),
        ("True", "why", Condition("ChannelReady", ConditionStatus.TRUE, "WaitingForKafka", "ns/a: why")),
        ("False", "why", Condition("ChannelReady", ConditionStatus.FALSE, "SubscriberFailed", "ns/a: why")),
        ("Unknown", "why", Condition("ChannelReady", ConditionStatus.UNKNOWN, "SubscriberNotServed", "ns/a: why")),
    ],
)
def test_serving_as_a_condition(ready: str, message: str, condition: Condition) -> None:
    assert serving("ChannelReady", SubscriberStatus("u", 1, ready, message), "ns/a") == condition


def test_a_filter_that_exceeds_its_limits_is_a_note_of_a_ready_subscriber() -> None:
    owned = tuple(range(SUBSCRIPTION.partitions))

    def reported(state: WorkerState = WorkerState.RUNNING, generation: int = SUBSCRIPTION.generation) -> Condition:
        row = WorkerSubscription(generation, owned, state, "", "LOWER: a text has 70,000 characters")
        workers = [WorkerStatus(name, NOW, "all", {SUBSCRIPTION.uid: row}) for name in ("w1", "w2")]
        return serving("Subscribed", subscriber_status(SUBSCRIPTION, workers, NOW))

    found = reported()
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "FilterLimitExceeded")
    assert found.message == (
        "some events do not match, because they exceed a limit of the filter: LOWER: a text has 70,000 characters"
    )
    assert reported(WorkerState.WAITING_FOR_KAFKA).reason == "WaitingForKafka"
    assert reported(WorkerState.FAILED).reason == "SubscriberFailed"
    assert reported(generation=SUBSCRIPTION.generation - 1).reason == "SubscriberNotServed"


def test_a_worker_that_waits_for_kafka_is_named_and_the_subscriber_stays_ready() -> None:
    owned = tuple(range(SUBSCRIPTION.partitions))
    waiting = WorkerSubscription(SUBSCRIPTION.generation, owned, WorkerState.WAITING_FOR_KAFKA)
    worker = WorkerStatus("w1", NOW, "all", {SUBSCRIPTION.uid: waiting})
    status = subscriber_status(SUBSCRIPTION, [worker], NOW)
    assert (status.ready, status.message) == (
        "True",
        "w1: waiting for Kafka, which does not confirm commits; new events wait",
    )
    assert serving("Ready", status).reason == "WaitingForKafka"
