"""Ingress over HTTP with the real producer, before Kafkas that do not store: what their answers become."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.observability.metrics import Metrics
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from knative.contract.records import Channel
from tests.security.raw_cases import LAST
from tests.support.fakes import MemoryContract
from tests.support.librdkafka import refuse_produce_requests
from tests.support.processes import free_port
from tests.support.webapp import HubApp, RunningWeb, statuses
from web.ingress import view

pytestmark = pytest.mark.integration
LIMIT_S = 180.0
#: A cluster within the client, whose topics come when they are asked for.
MOCK = {"test.mock.num.brokers": 1, "allow.auto.create.topics": True}


@contextmanager
def serving(kafka: dict[str, Any], timeout_s: float = 1.0) -> Iterator[tuple[RunningWeb, KafkaProducer]]:
    """An ingress whose producer gives a record up after `timeout_s`."""
    metrics = Metrics()
    crashes: list[BaseException] = []
    producer = KafkaProducer(ProducerConfig(kafka, "p", timeout_s=timeout_s), metrics, crashes.append)

    def setup(app: HubApp) -> None:
        contract = MemoryContract(Channel("u1", 1, "demo", "orders", "t", "t.dlq", 1))
        view.register(app, view.IngressConfig(), contract, producer, metrics)

    with RunningWeb(setup) as running:
        asyncio.run_coroutine_threadsafe(producer.start(), running.loop).result(LIMIT_S)
        try:
            yield running, producer
        finally:
            asyncio.run_coroutine_threadsafe(producer.stop(1.0), running.loop).result(LIMIT_S)
    assert crashes == []


def post(running: RunningWeb) -> tuple[int, bytes]:
    """One event -> (status, the whole answer)."""
    wire = running.exchange(LAST, timeout_s=LIMIT_S)
    (status,) = statuses(wire)
    return status, wire


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.KAFKA_STORAGE_ERROR,
    ],
)
def test_what_a_broker_does_not_store_is_503(error: int) -> None:
    """librdkafka's mock cluster stands in: of one real broker no topic wants more replicas than there are."""
    for timeout_s in (1.0, 8.0, 64.0):
        with serving(MOCK, timeout_s) as (running, producer):
            client = producer._client
            assert client is not None
            started = time.monotonic()
            first, _ = post(running)
            if time.monotonic() - started > timeout_s / 2:
                continue  # a busy machine: a client that takes so long is replaced, and its mock cluster with it
            assert first == 202
            refuse_produce_requests(client.kafka, *[error] * 100)
            status, wire = post(running)
            assert status == 503
            assert b"retry-after: 1\r\n" in wire
            assert b"not stored" in wire
            return
    pytest.fail(f"the first event was not stored within {timeout_s / 2:g} s")


def test_kafka_that_is_not_there_is_503() -> None:
    with serving({"bootstrap.servers": f"127.0.0.1:{free_port()}"}) as (running, _):
        status, wire = post(running)
        assert status == 503
        assert b"retry-after: 1\r\n" in wire


@pytest.mark.parametrize("error", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE])
def test_record_that_is_too_large_by_itself_is_413(error: int) -> None:
    # The second client starts within the limit.
    with serving(MOCK, LIMIT_S) as (running, producer):
        assert post(running)[0] == 202
        client = producer._client
        assert client is not None
        refuse_produce_requests(client.kafka, error)
        assert post(running)[0] == 202, "sent again by itself it fits"
        alone = producer._one_by_one._producer
        assert isinstance(alone, KafkaProducer)
        assert alone._client is not None
        refuse_produce_requests(client.kafka, error)
        refuse_produce_requests(alone._client.kafka, error)
        assert post(running)[0] == 413
