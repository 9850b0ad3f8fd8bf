"""When a subscriber is ready, and the records of the status topic."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.records import (
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
from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable
from knative.resources.conditions import Condition, ConditionStatus
from tables.kafka.compacted_topic import Record
from tables.status_parts import encode_status
from tables.status_table import (
    REPORT_KEY,
    StatusTable,
    decode_status,
    encode_report,
    encode_request,
    reported_offsets,
    serving,
    subscriber_status,
)

SUBSCRIPTION = Subscription("u1", 3, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
NOW = 1_000.0


def _crashed(problem: BaseException) -> None:
    raise problem


OLD = "needs colour, which this version does not know; update this worker"


def old_worker(name: str, age: float, generation: int) -> WorkerStatus:
    return WorkerStatus(
        name, NOW - age, "all", {"u1": WorkerSubscription(generation, (), WorkerState.UNSUPPORTED, OLD)}
    )


@pytest.mark.parametrize(
    ("workers", "ready", "message"),
    [
        ((), "False", f"old: this resource {OLD}"),
        ((0, 1), "False", f"old: this resource {OLD}"),
        ((0, 1, 2, 3), "True", f"old: this resource {OLD}. Other workers serve all partitions"),
    ],
)
def test_worker_that_is_too_old_is_named(workers: tuple[int, ...], ready: str, message: str) -> None:
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
        ([worker("a", 1, 3, 0, 1), worker("b", 11, 3, 2, 3)], "Unknown", "no worker owns these partitions yet: 2, 3"),
        ([worker("a", 11, 3, 0, 1, 2, 3)], "Unknown", "no worker"),
        ([worker("a", 1, 2, 0, 1, 2, 3)], "Unknown", "no worker has applied generation 3"),
        ([worker("a", 1, 3), worker("b", 1, 3, 0, 1, 2)], "Unknown", "no worker owns these partitions yet: 3"),
        ([worker("a", 1, 3, 0, 1, 2, 3, failed="partition 2: gone")], "False", "a: failed: partition 2: gone"),
    ],
)
def test_subscriber_is_ready_on_all_partitions(workers: list[WorkerStatus], ready: str, message: str) -> None:
    status = subscriber_status(SUBSCRIPTION, workers, NOW)
    assert (status.uid, status.observed_generation, status.ready) == ("u1", 3, ready)
    assert message in status.message


def test_highest_offset_that_was_reported_since_the_last_seek_counts() -> None:
    """Also of a worker that is gone; not of another topic."""
    present = replace(SUBSCRIPTION, topic_id="t2", seek="s2")

    def reporting(age: float, seek: str, *committed: tuple[int, int], topic_id: str = "t2") -> WorkerStatus:
        of = replace(SUBSCRIPTION, topic_id=topic_id, seek=seek).offsets_of
        stats = SubscriptionStats(committed=committed, offsets_of=of)
        return WorkerStatus(f"w{age}", NOW - age, "all", stats={"u1": stats, "u2": SubscriptionStats()})

    workers = [
        reporting(1, "s2", (0, 7), (1, 5)),
        reporting(500, "s2", (1, 9)),
        reporting(2, "s1", (0, 99)),
        reporting(3, "s2", (0, 98), topic_id="t1"),
        reporting(4, ""),
        WorkerStatus("w4", NOW, "all"),
    ]
    assert reported_offsets(present, workers) == {0: 7, 1: 9}
    assert reported_offsets(replace(present, seek="s3"), workers) == {}
    assert reported_offsets(replace(present, channel_uid="c2"), workers) == {}
    assert decode_status(encode_status(workers[0])) == replace(workers[0], stats={"u1": workers[0].stats["u1"]})


def test_status_round_trip_and_goodbye() -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    status = worker("a", 1, 3, 0, 1)
    assert decode_status(encode_status(status)) == status
    table.apply([Record(b"a", encode_status(status)), Record(b"b", b"junk")])
    assert table.workers == {"a": status}
    table.apply([Record(b"a", None)])
    assert table.workers == {}


ROWS = [
    WorkerSubscription(1, (0, 1), WorkerState.RUNNING),
    WorkerSubscription(2, (0, 1), WorkerState.RUNNING),
    WorkerSubscription(1, (), WorkerState.FAILED, 'of ","role":" and ,"progress":{}'),
]
STATUSES = st.builds(
    WorkerStatus,
    st.just("a"),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from(["all", "dispatcher"]),
    st.dictionaries(st.sampled_from(["u", "v"]), st.sampled_from(ROWS)),
    st.dictionaries(st.sampled_from(["u", "v"]), st.builds(SubscriptionStats, lag=st.integers(1, 2))),
    st.sampled_from(["", "1"]),
)


@given(st.lists(st.none() | STATUSES, max_size=6))
def test_what_a_worker_repeats_is_read_as_if_it_were_new(statuses: list[WorkerStatus | None]) -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    for status in statuses:
        value = None if status is None else encode_status(status)
        table.apply([Record(b"a", value)])
        assert table.workers == ({} if value is None else {"a": decode_status(value)})


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
def test_workers_state_in_the_record(text: str, state: WorkerState, reason: str) -> None:
    status = WorkerStatus("a", NOW, "all", {"u1": WorkerSubscription(1, (0,), state, reason)})
    value = encode_status(status)
    assert orjson.loads(value)["subscriptions"] == {"u1": {"generation": 1, "partitions": [0], "state": text}}
    assert decode_status(value) == status


def test_state_of_another_version_does_not_make_a_subscriber_unready() -> None:
    value = encode_status(worker("a", 0, 3, 0, 1, 2, 3)).replace(b'"running"', b'"catching up: 3 of 4"')
    status = decode_status(value)
    assert isinstance(status, WorkerStatus)
    assert subscriber_status(SUBSCRIPTION, [status], NOW).ready == "True"


def test_controllers_report_is_not_a_worker_status() -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    problem = ResourceProblem(
        "Subscription", "ns", "new", "False", "ChannelNotFound", "there is no KafkaChannel 'x'; add it"
    )
    report = ControllerReport(NOW, (problem,), 3)
    assert decode_status(encode_report(report)) == report
    table.apply([Record(REPORT_KEY, encode_report(report))])
    assert table.report == report
    assert table.workers == {}
    table.apply([Record(REPORT_KEY, None)])
    assert table.report is None


REMOVAL = RemovalRequest("one", 1.0)
SEEK = SeekRequest("one", "Trigger", "ns", "audit", "latest", 1.0)


@pytest.mark.parametrize("request_", [REMOVAL, SEEK])
@pytest.mark.parametrize(
    "then",
    [
        None,
        b"junk",
        b'{"schema": 99}',
        *(encode_request(change)[1] for change in (REMOVAL, SEEK, RemovalRequest("b", 1.0))),
    ],
)
def test_request_is_kept_under_its_own_key_until_another_record_replaces_it(
    request_: RemovalRequest | SeekRequest, then: bytes | None
) -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    key, value = encode_request(request_)
    kept = table.seek_requests if isinstance(request_, SeekRequest) else table.requests
    table.apply([Record(key, value)])
    assert kept == {"one": request_}
    table.apply([Record(key, then)])
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


def test_filter_that_exceeds_its_limits_is_a_note_of_a_ready_subscriber() -> None:
    owned = tuple(range(SUBSCRIPTION.partitions))

    def reported(state: WorkerState = WorkerState.RUNNING, generation: int = SUBSCRIPTION.generation) -> Condition:
        row = WorkerSubscription(generation, owned, state, "", "LOWER: a text has 70,000 characters")
        workers = [WorkerStatus(name, NOW, "all", {SUBSCRIPTION.uid: row}) for name in ("w1", "w2")]
        return serving("Subscribed", subscriber_status(SUBSCRIPTION, workers, NOW))

    condition = reported()
    assert (condition.status, condition.reason) == (ConditionStatus.TRUE, "FilterLimitExceeded")
    assert condition.message == (
        "some events do not match, because they exceed a limit of the filter: LOWER: a text has 70,000 characters"
    )
    assert reported(WorkerState.WAITING_FOR_KAFKA).reason == "WaitingForKafka"
    assert reported(WorkerState.FAILED).reason == "SubscriberFailed"
    assert reported(generation=SUBSCRIPTION.generation - 1).reason == "SubscriberNotServed"


def test_worker_that_waits_for_kafka_is_named_and_the_subscriber_stays_ready() -> None:
    owned = tuple(range(SUBSCRIPTION.partitions))
    waiting = WorkerSubscription(SUBSCRIPTION.generation, owned, WorkerState.WAITING_FOR_KAFKA)
    worker = WorkerStatus("w1", NOW, "all", {SUBSCRIPTION.uid: waiting})
    status = subscriber_status(SUBSCRIPTION, [worker], NOW)
    assert (status.ready, status.message) == (
        "True",
        "w1: waiting for Kafka, which does not confirm commits; new events wait",
    )
    assert serving("Ready", status).reason == "WaitingForKafka"
