"""How subscriptions are doing: through the status topic and back, merged over workers, and as the API writes it."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.contract.codec import stats_of, stats_row
from knative.contract.records import SubscriberStatus, Subscription, WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.subscription_stats import FAILING_MAX, FailingDelivery, LastError, SubscriptionStats
from knative.delivery.policy import Addressable
from tables.kafka.compacted_topic import Record
from tables.status_parts import encode_status
from tables.status_table import StatusTable, decode_status
from tables.subscriber_details import SubscriberDetails, details
from web.pages.subscriber_details import to_wide_row

SUBSCRIPTION = Subscription("u1", 3, "ns", "sub", "c1", "ch", "t", "t.dlq", 4, "kafka.u1", Addressable("http://s/"))
READY = SubscriberStatus("u1", 3, "True")
NOW = 1_700_000_000.0
ERROR = LastError(NOW - 5, 503, "the answer was 503", "busy", "http://s/", 1, 41)
BUSY = SubscriptionStats(
    3, 2, 100, NOW - 60, 12.5, (FailingDelivery(1, 41, 4, NOW + 8, "e41"), FailingDelivery(0, 7, 1, 0.0, "e7")), ERROR
)

counts, time_options, words = st.integers(0, 2**40), st.floats(0, 4e9), st.text(max_size=20)
heads = st.builds(FailingDelivery, counts, counts, counts, time_options, words)
errors = st.builds(LastError, time_options, counts, words, words, words, counts, counts)
progresses = st.builds(
    SubscriptionStats,
    counts,
    counts,
    counts,
    time_options,
    time_options,
    st.lists(heads, max_size=3).map(tuple),
    st.none() | errors,
    st.booleans(),
)


def worker(name: str, age_s: float, stats: SubscriptionStats | None, *partitions: int) -> WorkerStatus:
    rows = {"u1": WorkerSubscription(3, partitions, WorkerState.RUNNING)}
    return WorkerStatus(name, NOW - age_s, "all", rows, {} if stats is None else {"u1": stats})


def _worker(value: bytes) -> WorkerStatus:
    status = decode_status(value)
    assert isinstance(status, WorkerStatus)
    return status


def merged(*workers: WorkerStatus) -> SubscriberDetails:
    return details(SUBSCRIPTION, READY, workers, NOW, 10.0)


@given(progresses)
def test_statistics_come_back_from_a_status_record_as_they_were(stats: SubscriptionStats) -> None:
    back = _worker(encode_status(worker("a", 0, stats, 0, 1)))

    assert back.stats.get("u1", SubscriptionStats()) == stats


def test_subscription_at_rest_adds_nothing_to_a_record() -> None:
    assert stats_row(SubscriptionStats()) is None
    assert encode_status(worker("a", 0, SubscriptionStats(), 0)) == encode_status(worker("a", 0, None, 0))


def test_records_of_older_and_newer_versions_are_read() -> None:
    old = orjson.dumps(
        {
            "schema": 1,
            "worker": "a",
            "time": 1.0,
            "role": "all",
            "subscriptions": {"u1": {"generation": 1, "partitions": [0], "state": "running"}},
        }
    )
    assert _worker(old).stats == {}
    row = {"lag": 3, "colour": "blue", "heads": [[0, 1, 2, 3.0, "e", "more"]]}
    newer = orjson.dumps({**orjson.loads(old), "progress": {"u1": row}})
    assert _worker(newer).stats == {"u1": SubscriptionStats(lag=3, heads=(FailingDelivery(0, 1, 2, 3.0, "e"),))}


@pytest.mark.parametrize(
    "junk", [[], 7, {"u1": 7}, {"u1": {"lag": "x"}}, {"u1": {"heads": [[1]]}}, {"u1": {"last_error": {}}}]
)
def test_progress_that_cannot_be_read_takes_nothing_else_along(junk: object) -> None:
    record = {**orjson.loads(encode_status(worker("a", 0, None, 0))), "progress": junk}

    assert decode_status(orjson.dumps(record)) == worker("a", 0, None, 0)


def test_statistics_alone_do_not_wake_waiters() -> None:
    reported: list[int] = []
    table = StatusTable("t", {}, crashed=lambda _: None)
    table.loaded = True
    table.on_change(lambda: reported.append(1))

    table.apply([Record(b"a", encode_status(worker("a", 2, None, 0)))])
    table.apply([Record(b"a", encode_status(worker("a", 0, BUSY, 0)))])

    assert len(reported) == 1
    assert table.workers["a"].stats == {"u1": BUSY}


def test_workers_add_up() -> None:
    other = SubscriptionStats(
        1, 1, 20, NOW - 90, 0.5, (FailingDelivery(3, 9, 6, NOW + 2, "e9"),), LastError(NOW - 50, 400, "no"), True
    )

    total = merged(worker("b", 1, other, 2, 3), worker("a", 3, BUSY, 0, 1), worker("old", 11, BUSY, 0, 1, 2, 3))

    assert total.owners == (("a", (0, 1)), ("b", (2, 3)))
    assert (total.in_flight, total.retrying, total.lag, total.delivered_per_s) == (4, 3, 120, 13.0)
    assert total.throttled == ("b",)
    assert total.lag_s == 90
    assert [(name, head.offset) for name, head in total.heads] == [("b", 9), ("a", 41), ("a", 7)]
    assert total.next_attempt == NOW + 2
    assert total.last_error == ("a", ERROR)
    assert total.as_of == NOW - 3


@pytest.mark.parametrize(
    ("reported", "lag_s"),
    [
        ([], 0.0),
        ([None], 0.0),
        ([SubscriptionStats()], 0.0),
        ([SubscriptionStats(lag=5)], None),
        ([SubscriptionStats(lag=5, oldest=NOW - 2)], 2.0),
        ([SubscriptionStats(lag=5), SubscriptionStats(lag=1, oldest=NOW + 2)], 0.0),
    ],
)
def test_lag_is_of_the_oldest_head(reported: list[SubscriptionStats | None], lag_s: float | None) -> None:
    assert merged(*(worker(str(number), 0, stats, 0) for number, stats in enumerate(reported))).lag_s == lag_s


def test_heads_stay_bounded() -> None:
    many = SubscriptionStats(heads=tuple(FailingDelivery(0, number, 1) for number in range(FAILING_MAX)))

    assert len(merged(worker("a", 0, many, 0), worker("b", 0, many, 1)).heads) == FAILING_MAX


def test_row_as_the_api_writes_it() -> None:
    assert to_wide_row(merged(worker("a", 0, BUSY, 0, 1))) == {
        "namespace": "ns",
        "name": "sub",
        "group": "kafka.u1",
        "topic": "t",
        "order": "ordered",
        "partitions": 4,
        "owners": [{"worker": "a", "partitions": [0, 1]}],
        "inFlight": 3,
        "retrying": 2,
        "throttled": [],
        "lagEvents": 100,
        "lagSeconds": 60.0,
        "deliveriesPerSecond": 12.5,
        "heads": [
            {
                "partition": 1,
                "offset": 41,
                "id": "e41",
                "attempts": 4,
                "nextAttempt": "2023-11-14T22:13:28.000Z",
                "worker": "a",
            },
            {"partition": 0, "offset": 7, "id": "e7", "attempts": 1, "nextAttempt": None, "worker": "a"},
        ],
        "nextAttempt": "2023-11-14T22:13:28.000Z",
        "lastError": {
            "time": "2023-11-14T22:13:15.000Z",
            "code": 503,
            "reason": "the answer was 503",
            "answer": "busy",
            "destination": "http://s/",
            "partition": 1,
            "offset": 41,
            "worker": "a",
        },
        "asOf": "2023-11-14T22:13:20.000Z",
    }


def test_row_of_an_unserved_subscription() -> None:
    row = to_wide_row(merged())

    unknown = ("nextAttempt", "lastError", "asOf")
    assert (row["owners"], row["lagEvents"], row["heads"], [row[name] for name in unknown]) == ([], 0, [], [None] * 3)


def test_rows_of_a_record_are_json_of_plain_numbers_and_text() -> None:
    row = stats_row(BUSY)

    assert row is not None
    assert stats_of(orjson.loads(orjson.dumps(row))) == BUSY
