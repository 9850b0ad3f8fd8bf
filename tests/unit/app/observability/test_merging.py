"""One page of metrics and of health for several processes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from app.observability import exposition
from app.observability.merging import Totals, counters, families, health, merged
from app.observability.metrics import Metrics

COUNTED = ("penstock_settled_total", (("subscription", "test/a"), ("verdict", "delivered")))


def _text(metrics: list[Any]) -> str:
    registry = CollectorRegistry()
    registry.collect = lambda: iter(metrics)  # type: ignore[method-assign]
    return generate_latest(registry).decode()


def _served(seconds: float, partitions: int) -> Metrics:
    metrics = Metrics()
    metrics.delivered("test/a", seconds, 1.0)
    metrics.consumed("c", "t", 0, 5)
    metrics.request(202)
    metrics.watch(lambda: [])
    metrics.watch_ingress(lambda: (partitions, 10))
    return metrics


def test_two_processes_are_one_page() -> None:
    parts = [families(_served(0.001, 1).collect()), families(_served(5.0, 2).collect())]
    totals = Totals(1.0)
    totals.take(2, 1.5, counters(parts[1]))
    text = _text(merged(parts, totals.sums(counters(parts[0]))))
    assert 'penstock_settled_total{subscription="test/a",verdict="delivered"} 2.0' in text
    assert 'penstock_ingress_requests_total{code="202"} 2.0' in text
    assert "penstock_ingress_in_flight_requests 3.0" in text
    assert 'eventing_kafka_consumed_msg_count{consumer="c",partition="0",topic="t"} 10.0' in text
    assert 'penstock_delivery_seconds_count{subscription="test/a"} 2.0' in text
    assert 'penstock_delivery_seconds_sum{subscription="test/a"} 5.001' in text
    assert text.count("penstock_build_info{") == 1
    assert text.count("} 1.0") > 0
    assert text.count("# TYPE penstock_delivery_seconds histogram") == 1


@pytest.mark.parametrize(
    ("family", "merged_value"),
    [
        (lambda value: exposition.changes_not_used(value == 2), 1.0),
        (lambda value: exposition.dlq_letters({"t.dlq": value}), 2.0),
        (lambda value: exposition.subscription_info(["test/a"]), 1.0),
        (lambda value: exposition.api_server_troubles({"lease": value}), 2.0),
    ],
)
def test_gauges_that_are_no_sums(family: Any, merged_value: float) -> None:
    parts = [families([family(value)]) for value in (1, 2)]
    (metric,) = merged(parts, {})
    assert [sample.value for sample in metric.samples] == [merged_value]


def test_sums_do_not_fall_when_a_process_dies_and_starts_again() -> None:
    totals = Totals(began_at=10.0)
    totals.take(2, 11.0, {COUNTED: 100.0})
    assert totals.sums({COUNTED: 7.0}) == {COUNTED: 107.0}
    assert totals.sums({COUNTED: 8.0}) == {COUNTED: 108.0}, "it does not answer"
    totals.take(2, 50.0, {COUNTED: 1.0})
    assert totals.sums({COUNTED: 8.0}) == {COUNTED: 109.0}
    totals.take(2, 90.0, {})
    assert totals.sums({COUNTED: 9.0}) == {COUNTED: 110.0}


def test_all_sums_begin_again_with_the_process_that_adds_up() -> None:
    """With what the others had counted before, rate() would show all of it as new."""
    totals = Totals(began_at=100.0)
    totals.take(2, 11.0, {COUNTED: 1_000_000.0})
    assert totals.sums({COUNTED: 1.0}) == {COUNTED: 1.0}
    totals.take(2, 11.0, {COUNTED: 1_000_005.0})
    assert totals.sums({COUNTED: 1.0}) == {COUNTED: 6.0}
    totals.take(2, 11.0, {COUNTED: 2.0})
    assert totals.sums({COUNTED: 1.0}) == {COUNTED: 3.0}, "its subscription was removed and made again"


def test_series_that_no_process_has_any_more_is_gone() -> None:
    totals = Totals(began_at=10.0)
    totals.take(2, 11.0, {COUNTED: 5.0})
    totals.take(2, 12.0, {})
    assert totals.sums({}) == {}
    assert totals.sums({COUNTED: 1.0}) == {COUNTED: 1.0}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_sum_never_falls(steps: list[tuple[bool, int, int]]) -> None:
    totals, own, other, began_at, last = Totals(0.0), 0.0, 0.0, 1.0, 0.0
    for dies, more_own, more_other in steps:
        if dies:
            other, began_at = 0.0, began_at + 1
        own, other = own + more_own, other + more_other
        totals.take(2, began_at, {COUNTED: other})
        total = totals.sums({COUNTED: own})[COUNTED]
        assert total == last + more_own + more_other
        last = total


READY = ("ready", "not ready")
GOOD: tuple[bool, dict[str, Any]] = (True, {"kafka": "up"})
BAD_PAGE = {"status": "not ready", "kafka": "down"}


BAD: tuple[bool, dict[str, Any]] = (False, {"kafka": "starts"})
GOOD_PAGE = {"status": "ready", "kafka": "other"}


@pytest.mark.parametrize(
    ("own", "other", "one_is_enough", "good", "kafka", "status"),
    [
        (GOOD, (200, GOOD_PAGE), True, True, "up", "ready"),
        (GOOD, (503, BAD_PAGE), True, True, "up", "not ready"),
        (GOOD, (0, None), True, True, "up", "no answer"),
        (BAD, (200, GOOD_PAGE), True, True, "other", "ready"),
        (BAD, (503, BAD_PAGE), True, False, "starts", "not ready"),
        (BAD, (0, None), True, False, "starts", "no answer"),
        (GOOD, (503, BAD_PAGE), False, False, "down", "not ready"),
        (GOOD, (0, None), False, True, "up", "no answer"),
        (BAD, (200, GOOD_PAGE), False, False, "starts", "ready"),
    ],
)
def test_health_is_that_of_all_processes(
    own: tuple[bool, dict[str, Any]], other: tuple[int, Any], one_is_enough: bool, good: bool, kafka: str, status: str
) -> None:
    is_good, fields = health(own, {2: other}, READY, one_is_enough=one_is_enough)
    assert is_good is good
    assert fields["kafka"] == kafka
    assert fields["processes"] == [{"process": 1, "status": READY[not own[0]]}, {"process": 2, "status": status}]
