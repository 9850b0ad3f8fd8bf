"""Records that gather before they are handed to Kafka's client: in order, each reported once, none left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from app.local.kafka import EmbeddedKafka
from app.observability.metrics import Metrics
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import _FEW, KafkaProducer, Poller
from knative.ports import ProduceFailure, ProduceProblem
from tests.support.ledger import reader
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
LIMIT_S = 180.0
_COUNT = 60


def _send_all(producer: KafkaProducer, topic: str, reports: list[tuple[int, ProduceFailure | None]]) -> None:
    """Records of one key, in one turn of the loop."""
    for number in range(_COUNT):
        producer.send(topic, b"%d" % number, b"k", [], partial(_report, reports, number))


def _report(reports: list[tuple[int, ProduceFailure | None]], number: int, failure: ProduceFailure | None) -> None:
    reports.append((number, failure))
    if failure is not None and number % 2:
        raise RuntimeError("by a test")  # the records after it are reported nevertheless


async def test_under_load_records_are_handed_over_together_and_in_order(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    producer = KafkaProducer(ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p"), Metrics())
    await producer.start()
    reports: list[tuple[int, ProduceFailure | None]] = []
    try:
        _send_all(producer, topic, reports)
        assert producer._poller is Poller.LOOP
        assert (len(producer._gathered), producer._outstanding) == (_COUNT - _FEW, _COUNT)
        await until(lambda: len(reports) == _COUNT)
        assert reports == [(number, None) for number in range(_COUNT)]
        await until(lambda: producer._poller is Poller.THREAD)
        producer.send(topic, b"alone", b"k", [], partial(_report, reports, _COUNT))
        assert not producer._gathered, "with few records out, nothing waits"
        await until(lambda: len(reports) == _COUNT + 1)
    finally:
        await producer.stop(LIMIT_S)
    assert producer._outstanding == 0
    values = [record.value() for record in reader.records(kafka.bootstrap, topic)]
    assert values == [*(b"%d" % number for number in range(_COUNT)), b"alone"]


async def test_with_a_linger_of_0_each_record_is_handed_over_at_once(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    producer = KafkaProducer(ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p", linger_ms=0), Metrics())
    await producer.start()
    reports: list[tuple[int, ProduceFailure | None]] = []
    try:
        _send_all(producer, make_topic(), reports)
        assert (producer._poller, producer._gathered, producer._outstanding) == (Poller.LOOP, [], _COUNT)
        await until(lambda: len(reports) == _COUNT)
        assert reports == [(number, None) for number in range(_COUNT)]
        await until(lambda: producer._poller is Poller.THREAD)
    finally:
        await producer.stop(LIMIT_S)


async def test_what_has_gathered_when_the_producer_stops_is_reported(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    config = ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p", linger_ms=60_000)
    producer = KafkaProducer(config, Metrics())
    await producer.start()
    reports: list[tuple[int, ProduceFailure | None]] = []
    topic = make_topic()
    _send_all(producer, topic, reports)
    assert len(producer._gathered) == _COUNT - _FEW
    await producer.stop(0.0)
    producer.send(topic, b"late", None, [], partial(_report, reports, _COUNT))
    await until(lambda: len(reports) == _COUNT + 1)
    assert sorted(number for number, _ in reports) == list(range(_COUNT + 1))
    failures = {failure.problem for _, failure in reports if failure is not None}
    assert failures == {ProduceProblem.UNAVAILABLE}


async def test_each_record_that_the_client_has_no_room_for_is_reported(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """Also when a callback that gets the report fails."""
    config = ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p", queue_records_max=20)
    producer = KafkaProducer(config, Metrics())
    await producer.start()
    reports: list[tuple[int, ProduceFailure | None]] = []
    try:
        topic = make_topic()
        await until(lambda: producer.connected)
        _send_all(producer, topic, reports)
        await until(lambda: len(reports) == _COUNT)
    finally:
        await producer.stop(LIMIT_S)
    assert producer._outstanding == 0
    full = [number for number, failure in reports if failure is not None and failure.problem is ProduceProblem.FULL]
    assert full, "the queue of the client was full"
    assert sorted(number for number, _ in reports) == list(range(_COUNT))
