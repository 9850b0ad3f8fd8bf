"""The status of a worker with many subscriptions, in a topic of a real Kafka that refuses large records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message, Producer

from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from app.operations.requests import store_requests
from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_parts import StatusEncoder, encode_status, keys_of
from tables.status_table import StatusTable

pytestmark = pytest.mark.integration

LIMIT_S = 180.0
_BYTES_MAX = 8_192
_COUNT = 1_000


def _worker(time: float) -> WorkerStatus:
    row = WorkerSubscription(1, (0, 1), WorkerState.RUNNING)
    return WorkerStatus("w", time, "all", {f"u{number}": row for number in range(_COUNT)})


@pytest.mark.asyncio
async def test_readers_have_the_status_whole(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    instance, client = topic_name(), {"bootstrap.servers": kafka.bootstrap}
    each_alone = {**client, "batch.num.messages": "1"}  # the limit of a topic is one of batches
    admin, topic = KafkaAdmin(client, 60.0), status_topic(instance)
    compacted = {"cleanup.policy": "compact", "max.message.bytes": str(_BYTES_MAX)}
    for name in (contract_topic(instance), topic):
        await asyncio.to_thread(admin.create_topic, name, 1, 1, compacted)
    assert await asyncio.to_thread(_refused, client, topic, encode_status(_worker(1.0)))
    crashes: list[BaseException] = []
    table, encoder = StatusTable(topic, client, crashes.append), StatusEncoder(_BYTES_MAX - 1_000)
    table.start()
    try:
        for time in (1.0, 2.0):
            await asyncio.to_thread(store_requests, each_alone, instance, encoder.records(_worker(time)))
            assert await table.read_to_end(LIMIT_S)
            (status,) = table.workers.values()
            assert (status.time, len(status.subscriptions), status.parts) == (time, _COUNT, encoder.parts)
        ((whole,),) = [(await asyncio.to_thread(read_contract, client, instance, LIMIT_S)).workers]
        assert (whole.time, whole.subscriptions) == (2.0, status.subscriptions)
        await asyncio.to_thread(store_requests, client, instance, [(key, None) for key in keys_of(whole)])
        assert await table.read_to_end(LIMIT_S)
        assert table.workers == {}
    finally:
        await table.stop()
        admin.close()
    assert crashes == []


def _refused(client: dict[str, str], topic: str, value: bytes) -> bool:
    reported: list[KafkaError | None] = []

    def done(error: KafkaError | None, _: Message) -> None:
        reported.append(error)

    producer = Producer({**client, "message.timeout.ms": 60_000})
    producer.produce(topic, value, b"w", on_delivery=done)
    assert producer.flush(LIMIT_S) == 0
    return reported[0] is not None and reported[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
