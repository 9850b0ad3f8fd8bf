"""Metrics as Prometheus reads them."""

from __future__ import annotations

import importlib.metadata
import platform

import pytest
from prometheus_client import generate_latest

from app.observability.metrics import Metrics
from knative.contract.subscription_stats import SubscriptionSnapshot
from knative.ports import Observe


def _text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_metrics_are_what_the_data_plane_asks_for() -> None:
    observe: Observe = Metrics()

    observe.request(202)


def test_consumed_and_produced_have_the_names_users_know() -> None:
    metrics = Metrics(producer="penstock-producer")
    metrics.assigned("penstock-a", "t", [0, 1])
    metrics.serves("t", 2)
    metrics.consumed("penstock-a", "t", 1, 3)
    metrics.produced("t", 0, 0.004)

    lines = _text(metrics).splitlines()

    assert "# HELP eventing_kafka_consumed_msg_count Consumed Message Count" in lines
    assert "# TYPE eventing_kafka_consumed_msg_count gauge" in lines
    assert 'eventing_kafka_consumed_msg_count{consumer="penstock-a",partition="0",topic="t"} 0.0' in lines
    assert 'eventing_kafka_consumed_msg_count{consumer="penstock-a",partition="1",topic="t"} 3.0' in lines
    assert "# HELP eventing_kafka_produced_msg_count Produced Message Count" in lines
    assert "# TYPE eventing_kafka_produced_msg_count gauge" in lines
    assert 'eventing_kafka_produced_msg_count{partition="0",producer="penstock-producer",topic="t"} 1.0' in lines
    assert 'eventing_kafka_produced_msg_count{partition="1",producer="penstock-producer",topic="t"} 0.0' in lines


def test_partition_that_moves_away_keeps_its_count_and_an_unused_one_disappears() -> None:
    metrics = Metrics()
    metrics.assigned("c", "t", [0, 1])
    metrics.consumed("c", "t", 0, 5)

    metrics.revoked("c", "t", [0, 1, 2])
    metrics.assigned("c", "t", [0])

    name = "eventing_kafka_consumed_msg_count"
    assert _value(metrics, name, consumer="c", topic="t", partition="0") == 5
    assert _value(metrics, name, consumer="c", topic="t", partition="1") is None
    assert _value(metrics, name, consumer="c", topic="t", partition="2") is None


def test_what_does_not_work_at_the_api_server() -> None:
    metrics = Metrics()
    assert "penstock_api_server_troubles{" not in _text(metrics), "no cluster"

    metrics.watch_controller(lambda: ((), {}), lambda: {"lease": 0, "watch": 2})

    assert _value(metrics, "penstock_api_server_troubles", what="watch") == 2
    assert _value(metrics, "penstock_api_server_troubles", what="lease") == 0


@pytest.mark.parametrize(
    ("status", "code"), [(0, "none"), (200, "2xx"), (429, "4xx"), (503, "5xx"), (777, "other"), (-1, "other")]
)
def test_attempts_are_counted_by_class_of_answer(status: int, code: str) -> None:
    metrics = Metrics()

    metrics.attempt("ns/s", status, 0.25)

    assert _value(metrics, "penstock_attempts_total", subscription="ns/s", code=code) == 1
    assert _value(metrics, "penstock_delivery_seconds_sum", subscription="ns/s") == 0.25
    assert _value(metrics, "penstock_delivery_seconds_count", subscription="ns/s") == 1


def test_each_observation_counts_in_its_metric() -> None:
    metrics = Metrics()

    metrics.request(202)
    for _ in range(10):
        metrics.delivered("ns/s", 0.002, 0.02)
    metrics.settled("ns/s", "delivered", 7.5)
    metrics.settled("ns/s", "filtered", 7.5)
    metrics.filtered("ns/s")
    metrics.filter_exceeded("ns/s")
    metrics.expired("ns/s", 4)
    metrics.reply_dropped("ns/s")

    assert _value(metrics, "penstock_ingress_requests_total", code="202") == 1
    assert _value(metrics, "penstock_settled_total", subscription="ns/s", verdict="delivered") == 11
    assert _value(metrics, "penstock_settled_total", subscription="ns/s", verdict="filtered") == 2
    assert _value(metrics, "penstock_attempts_total", subscription="ns/s", code="2xx") == 10
    assert _value(metrics, "penstock_filter_limits_exceeded_total", subscription="ns/s") == 1
    assert _value(metrics, "penstock_records_expired_total", subscription="ns/s") == 4
    assert _value(metrics, "penstock_replies_dropped_total", subscription="ns/s") == 1


def test_times_are_histograms_in_seconds() -> None:
    metrics = Metrics()
    metrics.delivered("ns/s", 0.001, 0.03)
    metrics.delivered("ns/s", 0.0011, 7200.0)
    metrics.attempt("ns/s", 503, 0.3)
    metrics.settled("ns/s", "dead-lettered", 0.05)
    metrics.produced("t", 0, 0.004)
    metrics.loop_lag.add(0.0)

    def up_to(name: str, bound: str, **labels: str) -> float | None:
        return _value(metrics, f"{name}_bucket", le=bound, **labels)

    deliveries, ages = "penstock_delivery_seconds", "penstock_end_to_end_seconds"
    assert [up_to(deliveries, le, subscription="ns/s") for le in ("0.001", "0.0025", "0.5", "+Inf")] == [1, 2, 3, 3]
    assert [up_to(ages, le, subscription="ns/s") for le in ("0.025", "0.05", "3600", "+Inf")] == [0, 2, 2, 3]
    assert _value(metrics, f"{deliveries}_sum", subscription="ns/s") == pytest.approx(0.3021)
    assert _value(metrics, f"{ages}_count", subscription="ns/s") == 3
    assert [up_to("penstock_produce_seconds", le, topic="t") for le in ("0.0025", "0.005")] == [0, 1]
    assert up_to("penstock_event_loop_lag_seconds", "0.001") == 1


def test_answers_of_an_ingress_are_there_before_the_first_one() -> None:
    metrics = Metrics()
    codes = ("202", "429", "500", "503")
    assert [_value(metrics, "penstock_ingress_requests_total", code=code) for code in codes] == [None] * 4
    metrics.watch_ingress(lambda: (0, 0))
    metrics.request(503)
    assert [_value(metrics, "penstock_ingress_requests_total", code=code) for code in codes] == [0, 0, 0, 1]


def test_states_are_read_when_metrics_are_collected() -> None:
    metrics = Metrics()
    reading = SubscriptionSnapshot(
        "ns/s", 4, 3, 2, 100, 1_700_000_000.5, 7, 4096, 11, 1, (("assigned", 2), ("lost", 0)), throttled=True
    )
    metrics.watch(lambda: [reading])
    metrics.watch_ingress(lambda: (5, 600))

    def value(name: str, **labels: str) -> float | None:
        return _value(metrics, name, subscription="ns/s", **labels)

    names = ("owned_partitions", "in_flight_deliveries", "retrying_events", "lag_events", "lanes", "buffered_bytes")
    assert [value(f"penstock_{name}") for name in names] == [4, 3, 2, 100, 7, 4096]
    assert (value("penstock_throttled"), value("penstock_waiting_for_kafka")) == (1, 0)
    assert value("penstock_oldest_event_timestamp_seconds") == 1_700_000_000.5
    assert [value("penstock_commits_total", result=result) for result in ("ok", "failed")] == [11, 1]
    assert [value("penstock_rebalances_total", kind=kind) for kind in ("assigned", "lost")] == [2, 0]
    assert _value(metrics, "penstock_ingress_in_flight_requests") == 5
    assert _value(metrics, "penstock_ingress_in_flight_bytes") == 600


def test_what_is_gone_leaves_no_rows() -> None:
    metrics = Metrics()
    before = len(list(metrics.collect()))
    metrics.assigned("c", "topic-of-one", [0])
    metrics.serves("topic-of-one", 1)
    metrics.attempt("ns/one", 200, 0.1)
    metrics.settled("ns/one", "delivered", 0.1)
    metrics.expired("ns/one", 1)
    metrics.reply_dropped("ns/one")
    metrics.settled("ns/two", "delivered", 0.1)
    metrics.produced("topic-of-one", 0, 0.1)

    metrics.forget("ns/one")
    metrics.closed("c")
    metrics.unserved("topic-of-one")

    text = _text(metrics)
    assert "ns/one" not in text
    assert "topic-of-one" not in text
    assert "ns/two" in text
    assert len(list(metrics.collect())) == before


def test_build_is_what_runs() -> None:
    page = generate_latest(Metrics().registry).decode()
    (line,) = [line for line in page.splitlines() if line.startswith("penstock_build_info{")]
    assert f'version="{importlib.metadata.version("penstock")}"' in line
    assert f'python="{platform.python_version()}"' in line
    assert line.endswith("} 1.0")


def test_changes_that_are_not_used_are_shown() -> None:
    metrics, unused = Metrics(), list[str]()
    metrics.watch_changes(lambda: bool(unused))
    assert "penstock_changes_not_used 0.0" in generate_latest(metrics.registry).decode()
    unused.append("why")
    assert "penstock_changes_not_used 1.0" in generate_latest(metrics.registry).decode()


def test_who_leads_shows_all_subscriptions_and_the_records_of_dlq_topics() -> None:
    metrics = Metrics()
    assert "penstock_dlq_letters{" not in _text(metrics), "another process counts"
    metrics.watch_controller(lambda: (["ns/a", "ns/b"], {"t.dlq": 3, "s.dlq": 0}))
    lines = _text(metrics).splitlines()
    assert [line for line in lines if line.startswith(("penstock_dlq_letters{", "penstock_subscription_info{"))] == [
        'penstock_subscription_info{subscription="ns/a"} 1.0',
        'penstock_subscription_info{subscription="ns/b"} 1.0',
        'penstock_dlq_letters{topic="s.dlq"} 0.0',
        'penstock_dlq_letters{topic="t.dlq"} 3.0',
    ]
