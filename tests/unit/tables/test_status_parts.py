"""A worker with thousands of subscriptions: its status fits into records, and readers have it whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from knative.contract.broker_secrets import SecretProblem
from knative.contract.records import Subscription, WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable
from tables.kafka.compacted_topic import Record
from tables.status_parts import RECORD_BYTES_MAX, StatusEncoder, encode_status, join, joined, keys_of, split
from tables.status_table import StatusTable, decode_status, reported_offsets, subscriber_status

NOW = 1_000.0
MANY = 10_000
UIDS = [f"5f0c1c2e-8d1b-4b47-9c39-{number:012}" for number in range(MANY)]
ROW = WorkerSubscription(1, tuple(range(10)), WorkerState.RUNNING)
COMMITTED = tuple((partition, 1_000_000) for partition in range(10))
OFFSETS_OF = "8f0c1c2e-8d1b-4b47-9c39-000000000000/AAAAAAAAAAAAAAAAAAAAAA/"


def of_many(time: float = NOW, count: int = MANY, generation: int = 1) -> WorkerStatus:
    stats = SubscriptionStats(committed=COMMITTED, offsets_of=OFFSETS_OF)
    row = replace(ROW, generation=generation)
    uids = UIDS[:count]
    return WorkerStatus("w", time, "all", dict.fromkeys(uids, row), dict.fromkeys(uids, stats), "1", ("filter",))


def _apply(table: StatusTable, records: Iterable[tuple[bytes, bytes | None]]) -> None:
    table.apply([Record(key, value) for key, value in records])


def _table() -> StatusTable:
    return StatusTable("t", {}, crashed=lambda _: None)


def _same(status: WorkerStatus | None, other: WorkerStatus) -> bool:
    return status is not None and replace(status, parts=1) == replace(other, parts=1)


def test_status_of_ten_thousand_fits_and_is_read_whole() -> None:
    status, encoder, table = of_many(), StatusEncoder(), _table()
    records = encoder.records(status)
    assert max(len(value) for _, value in records) <= RECORD_BYTES_MAX
    assert [key for key, _ in records] == keys_of(replace(status, parts=encoder.parts))[::-1]
    _apply(table, records)
    assert list(table.workers) == ["w"]
    assert _same(table.workers["w"], status), "also what was committed, which the next owner of a partition compares"
    assert [_same(whole, status) for whole in joined(map(_decoded, records))] == [True]
    _apply(table, [(key, None) for key in keys_of(table.workers["w"])])
    assert table.workers == {}


def test_what_follows_from_a_status_is_the_same_in_parts() -> None:
    table = _table()
    _apply(table, StatusEncoder().records(of_many()))
    workers = table.workers.values()
    for uid in (UIDS[0], UIDS[-1]):
        subscription = Subscription(uid, 1, "n", "s", "c", "ch", "t", "t.dlq", 10, "g", Addressable("http://s/"))
        assert subscriber_status(subscription, workers, NOW).ready == "True"
        assert subscriber_status(subscription, workers, NOW + 11).ready == "Unknown"
        same = replace(subscription, channel_uid=OFFSETS_OF.split("/")[0], topic_id=OFFSETS_OF.split("/")[1])
        assert reported_offsets(same, workers) == dict(COMMITTED)


def test_small_status_is_one_record_as_before() -> None:
    ((key, value),) = StatusEncoder().records(of_many(count=100))
    assert key == b"w"
    assert b'"parts"' not in value


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_while_it_grows_and_shrinks_no_subscription_is_missed(counts: list[int]) -> None:
    encoder, table = StatusEncoder(4_000), _table()
    before = 0
    for round_, count in enumerate(counts):
        status = of_many(NOW + round_, count)
        for record in encoder.records(status):
            _apply(table, [record])
            if round_:  # what it had before and still has is there after each record
                assert table.workers["w"].subscriptions.keys() >= set(UIDS[: min(before, count)])
        assert _same(table.workers["w"], status)
        before = count


def test_secrets_that_cannot_be_used_are_in_one_part_each() -> None:
    """An ingress has Secrets without subscriptions, and a worker may have more of both than a record takes."""
    secrets = {f"shop/secret-{number}": SecretProblem("SecretNotFound", "x" * 150) for number in range(5_000)}
    for count in (0, 100, MANY):
        status, encoder, table = replace(of_many(count=count), secrets=secrets), StatusEncoder(), _table()
        records = encoder.records(status)
        assert max(len(value) for _, value in records) <= RECORD_BYTES_MAX
        assert sum(len(value) for _, value in records) <= 1.1 * len(encode_status(status)) + 10_000
        _apply(table, records)
        assert _same(table.workers["w"], status)
        _apply(table, encoder.records(replace(status, secrets={})))
        assert table.workers["w"].secrets == {}


def test_parts_of_an_earlier_process_do_not_count() -> None:
    table = _table()
    _apply(table, StatusEncoder().records(of_many()))
    after = of_many(NOW + 1, count=100, generation=2)
    _apply(table, StatusEncoder().records(after))
    assert _same(table.workers["w"], after)


def test_without_its_first_record_a_worker_is_not_there() -> None:
    status = of_many(count=20)
    assert join(split(status, 4)[1:]) is None
    assert [_same(whole, status) for whole in joined(split(status, 4))] == [True]


def test_only_another_row_wakes_waiters() -> None:
    woken: list[int] = []
    encoder, table = StatusEncoder(), _table()
    table.loaded = True
    table.on_change(lambda: woken.append(1))
    _apply(table, encoder.records(of_many()))
    rows = table.workers["w"].subscriptions
    _apply(table, encoder.records(of_many(NOW + 2)))
    assert (len(woken), table.workers["w"].time, table.workers["w"].subscriptions is rows) == (1, NOW + 2, True)
    _apply(table, encoder.records(of_many(NOW + 4, generation=2)))
    assert len(woken) == 2


def _decoded(record: tuple[bytes, bytes]) -> WorkerStatus:
    status = decode_status(record[1])
    assert isinstance(status, WorkerStatus)
    return status
