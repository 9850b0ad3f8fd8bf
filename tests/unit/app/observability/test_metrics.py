"""Metrics as Prometheus reads them, and the admin port that serves them."""

from __future__ import annotations

import importlib.metadata
import platform
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.observability.admin_server import AdminConfig, AdminServer
from app.observability.metrics import Metrics
from knative.contract.subscription_stats import SubscriptionSnapshot
from knative.errors import PenstockError
from knative.ports import Observe


def _text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_it_is_what_the_data_plane_asks_for() -> None:
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


def test_a_partition_that_moves_away_keeps_its_count_and_an_unused_one_disappears() -> None:
    metrics = Metrics()
    metrics.assigned("c", "t", [0, 1])
    metrics.consumed("c", "t", 0, 5)

    metrics.revoked("c", "t", [0, 1, 2])
    metrics.assigned("c", "t", [0])

    name = "eventing_kafka_consumed_msg_count"
    assert _value(metrics, name, consumer="c", topic="t", partition="0") == 5
    assert _value(metrics, name, consumer="c", topic="t", partition="1") is None
    assert _value(metrics, name, consumer="c", topic="t", partition="2") is None


@pytest.mark.parametrize(
    ("status", "code"), [(0, "none"), (200, "2xx"), (429, "4xx"), (503, "5xx"), (777, "other"), (-1, "other")]
)
def test_attempts_are_counted_by_class_of_answer(status: int, code: str) -> None:
    metrics = Metrics()

    metrics.attempt("ns/s", status, 0.25)

    assert _value(metrics, "penstock_attempts_total", subscription="ns/s", code=code) == 1
    assert _value(metrics, "penstock_delivery_seconds_sum", subscription="ns/s") == 0.25
    assert _value(metrics, "penstock_delivery_seconds_count", subscription="ns/s") == 1


def test_the_other_counters() -> None:
    metrics = Metrics()

    metrics.request(202)
    for _ in range(10):
        metrics.delivered("ns/s", 0.002, 0.02)
    metrics.settled("ns/s", "delivered", 7.5)
    metrics.expired("ns/s", 4)
    metrics.reply_dropped("ns/s")

    assert _value(metrics, "penstock_ingress_requests_total", code="202") == 1
    assert _value(metrics, "penstock_settled_total", subscription="ns/s", verdict="delivered") == 11
    assert _value(metrics, "penstock_attempts_total", subscription="ns/s", code="2xx") == 10
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


def test_scrapes_and_counting_threads_do_not_disturb_each_other() -> None:
    metrics = Metrics()

    def count(partition: int) -> None:
        for number in range(20_000):
            metrics.consumed("c", f"t{number % 50}", partition, 1)

    threads = [threading.Thread(target=count, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        _text(metrics)
    for thread in threads:
        thread.join(30)

    families = {family.name: family for family in metrics.collect()}
    samples = families["eventing_kafka_consumed_msg_count"].samples
    assert sum(sample.value for sample in samples) == 80_000


# -- the admin port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Health:
    good = True

    def __call__(self) -> tuple[bool, Mapping[str, Any]]:
        return self.good, {"kafka": "connected"}


@pytest_asyncio.fixture
async def admin() -> AsyncIterator[tuple[str, Metrics, _Health]]:
    """A running admin server: its URL, its metrics, and the answer of its readiness."""
    metrics, ready = Metrics(), _Health()
    server = AdminServer(AdminConfig("127.0.0.1", _free_port()), metrics, _Health(), ready)
    await server.start()
    yield f"http://127.0.0.1:{server.config.port}", metrics, ready
    await server.stop(5)


@pytest.mark.asyncio
async def test_metrics_are_served_in_the_text_format(admin: tuple[str, Metrics, _Health]) -> None:
    url, metrics, _ = admin
    metrics.consumed("c", "t", 0, 1)

    async with aiohttp.ClientSession() as client, client.get(f"{url}/metrics") as answer:
        text = await answer.text()

    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"eventing_kafka_consumed_msg_count", "process_cpu_seconds"} <= names


@pytest.mark.asyncio
async def test_health_pages_show_the_health_of_the_process(admin: tuple[str, Metrics, _Health]) -> None:
    url, _, ready = admin

    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ready", "kafka": "connected"})
        ready.good = False
        async with client.get(f"{url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (503, {"status": "not ready", "kafka": "connected"})
        async with client.get(f"{url}/healthz") as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "ok")
        async with client.get(url) as answer:
            assert "/metrics" in await answer.text()
        async with client.post(f"{url}/metrics") as answer:
            assert answer.status == 405


@pytest.mark.asyncio
async def test_a_busy_port_is_an_error_with_a_hint() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = AdminServer(AdminConfig("127.0.0.1", port), Metrics(), _Health(), _Health())

        with pytest.raises(PenstockError, match=f"127.0.0.1:{port} cannot be opened.*PENSTOCK_ADMIN_PORT"):
            await server.start()


@pytest.mark.asyncio
async def test_port_0_starts_no_server() -> None:
    server = AdminServer(AdminConfig("127.0.0.1", 0), Metrics(), _Health(), _Health())

    await server.start()
    await server.stop(1)


def test_the_build_is_what_runs() -> None:
    page = generate_latest(Metrics().registry).decode()
    (line,) = [line for line in page.splitlines() if line.startswith("penstock_build_info{")]
    assert f'version="{importlib.metadata.version("penstock")}"' in line
    assert f'python="{platform.python_version()}"' in line
    assert line.endswith("} 1.0")


def test_dead_letters_are_shown_of_subscriptions_that_there_are() -> None:
    metrics = Metrics()
    assert "penstock_dlq_letters{" not in _text(metrics), "another process counts"
    metrics.watch_dlq(lambda: ({"ns/a": 3, "ns/gone": 1}, ["ns/a", "ns/b"]))
    lines = [line for line in _text(metrics).splitlines() if line.startswith("penstock_dlq_letters{")]
    assert lines == ['penstock_dlq_letters{subscription="ns/a"} 3.0', 'penstock_dlq_letters{subscription="ns/b"} 0.0']
