"""The contract's table, and records that are not valid."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.codec import UnknownSchema
from knative.contract.leader_state import Identity, LeaderState
from knative.contract.records import (
    Channel,
    Subscription,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
)
from knative.delivery.policy import Addressable, BackoffPolicy, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from tables.contract_table import ContractTable, decode_entry, encode_entry
from tables.kafka.compacted_topic import Record
from tables.status_parts import encode_status
from tables.status_table import StatusTable

SUBSCRIPTION = Subscription("u1", 3, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
CHANNEL = Channel("c1", 2, "ns", "ch", "t", "t.dlq", 4, ("a.example", "b.example"))
NOW = 1_000.0

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PATHS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#@"), max_size=20)
destinations = st.builds(Addressable, uri=_PATHS.map("http://host:8080/{}".format), ca_certs=_TEXTS)
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
def test_subscription_comes_back_from_its_record(
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


def test_table_follows_the_topic() -> None:
    table, reported = contract()
    table.apply([Record(b"c1", encode_entry(CHANNEL)), Record(b"u1", encode_entry(SUBSCRIPTION))])
    assert (table.channels, table.subscriptions) == ({"c1": CHANNEL}, {"u1": SUBSCRIPTION})
    table.apply([Record(b"u1", encode_entry(SUBSCRIPTION))])
    assert len(reported) == 1, "the same again is no change"
    table.apply([Record(b"u1", None)])
    assert (table.subscriptions, len(reported)) == ({}, 2)


def test_newer_schema_leaves_the_last_good_record_and_is_a_problem_until_it_is_replaced() -> None:
    table, _ = contract()
    table.apply([Record(b"c1", encode_entry(CHANNEL))])
    table.apply([Record(b"c1", b'{"schema":99}')])
    assert table.channels == {"c1": CHANNEL}
    assert "c1" in table.problem
    table.apply([Record(b"c1", encode_entry(replace(CHANNEL, generation=3)))])
    assert table.problem == ""


def _with(entry: Channel | Subscription, **fields: object) -> bytes:
    row = orjson.loads(encode_entry(entry))
    row[row["what"]].update(fields)
    return orjson.dumps(row)


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (b"", "empty document"),
        (b"{", "unexpected end of data"),
        (b"null", "the record is null, not an object"),
        (b"[]", "the record is a list, not an object"),
        (b'{"schema":"1"}', "schema is a text, not a whole number"),
        (b'{"schema":1,"what":"channel"}', "channel is null, not an object"),
        (_with(SUBSCRIPTION, group=""), "subscription.group is not a valid group name"),
        (_with(SUBSCRIPTION, group="a\0b"), "subscription.group is not a valid group name"),
        (_with(SUBSCRIPTION, generation="x"), "subscription.generation is a text, not a whole number"),
        (_with(SUBSCRIPTION, topic="a/b"), "subscription.topic is not a valid topic name"),
        (_with(SUBSCRIPTION, partitions=2**31), "subscription.partitions is not between 1 and 100,000"),
        (_with(SUBSCRIPTION, uid="u2"), "has another key"),
        (_with(SUBSCRIPTION, secret="../../etc"), "subscription.secret is not a valid name of a Secret"),
        (_with(SUBSCRIPTION, subscriber={"uri": "file:///etc/passwd"}), "subscriber.uri is not an absolute http"),
        (_with(SUBSCRIPTION, filter='{"cesql": "("}'), "subscription.filter is not a valid filter"),
        (_with(SUBSCRIPTION, filter="[" * 100_000), "subscription.filter is not a valid filter"),
    ],
)
def test_bad_record_is_named_once_and_skipped_and_the_rest_of_the_batch_counts(
    junk: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, reported = contract()
    after = replace(SUBSCRIPTION, uid="u9", name="after")
    table.apply(
        [
            Record(b"u1", encode_entry(SUBSCRIPTION)),
            Record(b"u1", junk, 3, 17),
            Record(b"u9", encode_entry(after)),
        ]
    )
    assert table.subscriptions == {"u1": SUBSCRIPTION, "u9": after}
    assert len(reported) == 1
    assert table.problem == "", "what is not valid says nothing about what should be served"
    (line,) = caplog.messages
    assert "the record t/3/17 with the key 'u1' cannot be read and is skipped: " in line
    assert reason in line


@pytest.mark.parametrize(
    "change",
    [
        {"subscriptions": 7},
        {"subscriptions": {"u1": {"generation": "x", "partitions": [], "state": "running"}}},
        {"subscriptions": {"u1": {"generation": 1, "partitions": 7, "state": "running"}}},
        {"time": "now"},
        {"features": 7},
        {"kafka_secrets": []},
    ],
)
def test_bad_status_is_named_once_and_skipped(change: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    good = WorkerStatus("a", NOW, "all", {"u1": WorkerSubscription(1, (0,), WorkerState.RUNNING)})
    bad = orjson.dumps({**orjson.loads(encode_status(good)), **change})
    other = replace(good, worker="b")
    table.apply([Record(b"a", encode_status(good)), Record(b"a", bad, 0, 5), Record(b"b", encode_status(other))])
    assert table.workers == {"a": good, "b": other}
    (line,) = caplog.messages
    assert "the record t/0/5 with the key 'a' cannot be read and is skipped: " in line


def test_bad_row_of_a_leader_does_not_stop_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    table = StatusTable("t", {}, crashed=_crashed)
    table.apply(
        [
            Record(b"/leader/1-a", b'{"schema":1,"leader":{"claim":"dir"}}'),
            Record(b"/leader/1-a/removal/u", b'{"schema":1,"leader":{"removal":{"uid":"u","topics":["/"]}}}', 0, 4),
            Record(
                b"/leader/1-a/identity/Trigger/ns/a",
                b'{"schema":1,"leader":{"identity":{"uid":"i","generation":1,"spec_hash":"h"},"key":["Trigger","ns","a"]}}',
            ),
        ]
    )
    assert table.leaders.state() == LeaderState(identities={("Trigger", "ns", "a"): Identity("i", 1, "h")})
    assert ["t/0/4" in line for line in caplog.messages] == [True]
    table.apply([Record(b"/leader/1-a/colour/u", b'{"schema":1,"leader":{"colour":"red"}}')])
    with pytest.raises(ValueError, match="known kinds"):
        table.leaders.state()  # a newer version wrote it, and must not lose it


def test_older_generation_does_not_come_back() -> None:
    table, _ = contract()
    table.apply([Record(b"u1", encode_entry(SUBSCRIPTION))])
    table.apply([Record(b"u1", encode_entry(replace(SUBSCRIPTION, generation=2)))])
    assert table.subscriptions["u1"].generation == 3


def _needing(subscription: Subscription, *features: str) -> bytes:
    record = {**orjson.loads(encode_entry(subscription)), "schema": 2, "needs": list(features)}
    return orjson.dumps(record)


def test_subscription_that_needs_a_newer_version_is_not_served_and_the_others_are() -> None:
    """Its last good record would deliver by rules that are not in force any more."""
    table, reported = contract()
    other = replace(SUBSCRIPTION, uid="u2", name="other")
    table.apply([Record(b"u1", encode_entry(SUBSCRIPTION)), Record(b"u2", encode_entry(other))])
    changed = replace(SUBSCRIPTION, generation=4)
    table.apply([Record(b"u1", _needing(changed, "colour"))])
    assert (table.subscriptions, table.problem) == ({"u2": other}, "")
    assert table.unsupported["u1"].status == WorkerSubscription(
        4, (), WorkerState.UNSUPPORTED, "needs colour, which this version does not know; update this worker"
    )
    assert table.unsupported_text.startswith("Subscription ns/sub needs colour, which")
    table.apply([Record(b"u1", _needing(changed, "colour"))])
    table.apply([Record(b"u1", encode_entry(SUBSCRIPTION))])
    assert len(reported) == 2, "the same again is no change, and an older generation does not come back"
    assert list(table.subscriptions) == ["u2"]
    table.apply([Record(b"u1", encode_entry(replace(changed, generation=5)))])
    assert (table.subscriptions["u1"].generation, table.unsupported) == (5, {})
    table.apply([Record(b"u1", _needing(replace(changed, generation=6), "colour")), Record(b"u1", None)])
    assert (list(table.subscriptions), table.unsupported, table.unsupported_text) == (["u2"], {}, "")


@pytest.mark.parametrize("needs", [b"5", b"null"])
def test_needs_that_cannot_be_read_leave_the_last_good_record(needs: bytes) -> None:
    table, _ = contract()
    table.apply([Record(b"u1", encode_entry(SUBSCRIPTION))])
    table.apply([Record(b"u1", _needing(SUBSCRIPTION).replace(b"[]", needs))])
    assert (table.subscriptions, table.unsupported, table.problem) == ({"u1": SUBSCRIPTION}, {}, "")
