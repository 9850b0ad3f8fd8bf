"""The producer against a real Kafka, when its client meets an error that ends it for good."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from app.local.kafka import EmbeddedKafka
from app.observability.metrics import Metrics
from app.worker.producer.client import ClientState, ProducerClient
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from knative.ports import ProduceFailure, ProduceProblem
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger import reader
from tests.support.librdkafka import make_fatal

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
LIMIT_S = 180.0
_TRIES = 10
_OVERTAKEN_S = 15.0


async def _send(
    producer: KafkaProducer,
    topic: str,
    value: bytes | None = b"x",
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> ProduceFailure | None:
    stored: asyncio.Future[ProduceFailure | None] = asyncio.get_running_loop().create_future()
    producer.send(topic, value, key, headers, stored.set_result)
    return await asyncio.wait_for(stored, LIMIT_S)


@pytest.mark.parametrize("out", [0, 5, 50])
async def test_after_a_fatal_error_all_who_wait_are_told_and_a_new_client_goes_on(
    out: int, kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    crashes: list[BaseException] = []
    config = ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p", linger_ms=200)
    producer = KafkaProducer(config, Metrics(), crashes.append)
    await producer.start()
    try:
        assert await _send(producer, topic) is None
        client = producer._client
        assert client is not None
        waiting = [asyncio.ensure_future(_send(producer, topic)) for _ in range(out)]
        await asyncio.sleep(0)
        make_fatal(client.kafka)
        for reported in await asyncio.gather(*waiting):
            assert reported is None or reported.problem is ProduceProblem.UNAVAILABLE
        async with asyncio.timeout(LIMIT_S):
            while (failure := await _send(producer, topic)) is not None:
                assert failure.problem is ProduceProblem.UNAVAILABLE
                await asyncio.sleep(0.05)
        assert producer._client is not client
        assert client.state in (ClientState.PURGING, ClientState.CLOSED)
    finally:
        await producer.stop(1.0)
    assert crashes == []


async def test_poll_thread_that_dies_is_told(kafka: EmbeddedKafka) -> None:
    class Broken(KafkaProducer):
        def _serve(self, client: ProducerClient) -> None:
            raise RuntimeError("by a test")

    crash: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    producer = Broken(ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p"), Metrics(), crash.set_result)
    await producer.start()
    assert str(await asyncio.wait_for(crash, LIMIT_S)) == "by a test"
    await producer.stop(1.0)


@pytest.mark.parametrize("out", [1, 100])
async def test_one_that_fails_when_it_is_told_does_not_keep_others_from_being_told(
    out: int, kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    def failing(_: object) -> None:
        raise RuntimeError("by a test")

    topic = make_topic()
    crashes: list[BaseException] = []
    producer = KafkaProducer(ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p"), Metrics(), crashes.append)
    await producer.start()
    try:
        for _ in range(3):
            waiting = []
            for _ in range(out):
                producer.send(topic, b"x", None, [], failing)
                waiting.append(asyncio.ensure_future(_send(producer, topic)))
                await asyncio.sleep(0)
            assert set(await asyncio.gather(*waiting)) == {None}
            await asyncio.sleep(0.1)  # ticks end, the poll thread takes over
    finally:
        await producer.stop(1.0)
    assert (crashes, producer._outstanding) == ([], 0)


async def test_poll_on_the_loop_that_fails_ends_the_process(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    class Broken(KafkaProducer):
        def _take_acks(self) -> int:
            raise RuntimeError("by a test")

    topic = make_topic()
    crashes: list[BaseException] = []
    producer = Broken(ProducerConfig({"bootstrap.servers": kafka.bootstrap}, "p"), Metrics(), crashes.append)
    await producer.start()
    waiting = []
    async with asyncio.timeout(LIMIT_S):
        while not crashes:
            waiting.append(asyncio.ensure_future(_send(producer, topic)))
            await asyncio.sleep(0)
    assert str(crashes[0]) == "by a test"
    assert set(await asyncio.gather(*waiting)) == {None}, "the poll thread goes on meanwhile"
    await producer.stop(1.0)


async def test_record_is_too_large_only_by_its_own_size(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Side by side they are in one batch, which the topic rejects; a record that is sent again is complete."""
    topic = make_topic(3, max_message_bytes=20_000)
    crashes: list[BaseException] = []
    client = {"bootstrap.servers": kafka.bootstrap, "statistics.interval.ms": 50}
    config = ProducerConfig(client, "p", linger_ms=100)
    producer = KafkaProducer(config, Metrics(), crashes.append)
    await producer.start()
    values: list[bytes | None] = [os.urandom(1000) for _ in range(200)]
    values[3:5] = None, b""
    try:
        assert await _send(producer, topic, b"warm", b"warm") is None
        waiting = [
            asyncio.ensure_future(_send(producer, topic, value, b"k%d" % number, [("n", b"%d" % number)]))
            for number, value in enumerate(values)
        ]
        large = asyncio.ensure_future(_send(producer, topic, os.urandom(30_000), b"large"))
        assert set(await asyncio.gather(*waiting)) == {None}
        reported = await large
        assert reported is not None
        assert reported.problem is ProduceProblem.TOO_LARGE
        alone = producer._one_by_one._producer
        assert isinstance(alone, KafkaProducer), "there was such a batch"
        assert (producer._outstanding, alone._outstanding) == (0, 0)
        async with asyncio.timeout(LIMIT_S):  # a refusal gives the client a new epoch, which is noticed
            while not (identity := producer._stored_again.identity) or not identity[1]:
                await asyncio.sleep(0.05)
    finally:
        await producer.stop(1.0)
    assert crashes == []
    stored = [message for message in reader.records(kafka.bootstrap, topic) if message.key() != b"warm"]
    assert sorted(
        (int(reader.header(message, "n")), message.key(), message.value()) for message in stored if message.value()
    ) == [(number, b"k%d" % number, value) for number, value in enumerate(values) if value]
    assert {message.key(): message.value() for message in stored if not message.value()} == {b"k3": None, b"k4": b""}


async def test_who_is_posted_once_is_stored_once_whatever_runs_out_of_time(tmp_path: Path) -> None:
    """Kafka stores what five partitions are sent, and its answers are lost; then the first record runs out of time."""
    results: dict[str, ProduceFailure | None] = {}
    with KafkaCluster(tmp_path, brokers=1) as single:
        single.create_topic("t", 5)
        proxy = single.brokers[0].proxy
        # With the client's own metrics off, no request of theirs blocks those that follow it.
        client = {"bootstrap.servers": single.bootstrap, "reconnect.backoff.ms": 20, "enable.metrics.push": False}
        producer = KafkaProducer(ProducerConfig(client, "p", timeout_s=3.0), Metrics())

        def send(name: str, partition: int) -> None:
            headers = [("ce_id", name.encode())]
            producer.send("t", b"x", b"k", headers, partial(results.__setitem__, name), partition)

        async def answered(count: int) -> None:
            async with asyncio.timeout(LIMIT_S):
                while len(results) < count:
                    await asyncio.sleep(0.02)

        await producer.start()
        try:
            while set(results.values()) != {None}:  # it may take longer than the time-out to connect
                results.clear()
                for partition in range(5):
                    send(f"before-{os.urandom(4).hex()}", partition)
                await answered(5)
            await asyncio.to_thread(proxy.mute)
            for partition in range(5):
                send(f"within-{partition}", partition)
                await asyncio.sleep(0.2)
            await asyncio.sleep(2.1)
            await asyncio.to_thread(proxy.forward)
            await answered(10)
        finally:
            await producer.stop(1.0)
        stored = Counter(fact.id for fact in reader.stored(single.direct, "t"))
    assert {name for name, failure in results.items() if failure is None} <= set(stored)
    assert any(name.startswith("within") for name in stored), "Kafka has heard of them"
    assert {name: count for name, count in stored.items() if count > 1} == {}


async def test_epochs_are_not_used_up(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Each record that Kafka rejects raises the epoch. When it starts again, Kafka takes new records for old ones."""
    topic = make_topic(max_message_bytes=1_000)
    client = {"bootstrap.servers": kafka.bootstrap, "statistics.interval.ms": 50}
    producer = KafkaProducer(ProducerConfig(client, "p", batch_records_max=1, epochs_max=3), Metrics())
    await producer.start()
    try:
        assert await _send(producer, topic, b"first") is None
        first = producer._client
        async with asyncio.timeout(LIMIT_S):
            while producer._client is first:
                reported = await _send(producer, topic, os.urandom(2_000))
                assert reported is not None
                assert reported.problem is ProduceProblem.TOO_LARGE
        assert await _send(producer, topic, b"last") is None
    finally:
        await producer.stop(1.0)
    assert [message.value() for message in reader.records(kafka.bootstrap, topic)] == [b"first", b"last"]


async def test_record_is_stored_only_when_kafka_has_said_where(cluster: KafkaCluster) -> None:
    """Kafka refuses a client's first record of a partition, and stores the second, which was on its way already. The
    client takes that for a sign that the first one is stored as well."""
    for _ in range(_TRIES):
        results, stored = await _the_second_overtakes(cluster)
        assert {name for name, failure in results.items() if failure is None} <= stored
        if "refused" not in stored and results["stored"] is None:
            assert (failure := results["refused"]) is not None
            assert failure.problem is ProduceProblem.UNAVAILABLE
            return
    pytest.fail("what the test is about did not happen")


async def _the_second_overtakes(cluster: KafkaCluster) -> tuple[dict[str, ProduceFailure | None], set[str]]:
    """What became of each record, and what is stored. The answer to the first one is held until the second is stored,
    which is not so when the client looks for the leader meanwhile: that answer is held too."""
    await asyncio.to_thread(cluster.heal)
    topic = f"t-{os.urandom(4).hex()}"
    cluster.create_topic(topic, 4)
    leaders = [cluster.leader(topic, partition) for partition in range(4)]
    (warm, partition), leader = next(
        (pair, leaders[pair[0]]) for pair in combinations(range(4), 2) if leaders[pair[0]] is leaders[pair[1]]
    )
    # It asks for leaders only when it has to: not to connect again to the broker that is killed, and not regularly.
    rarely = {
        "reconnect.backoff.ms": 60_000,
        "reconnect.backoff.max.ms": 60_000,
        "topic.metadata.refresh.interval.ms": -1,
    }
    client = {"bootstrap.servers": cluster.bootstrap, "enable.metrics.push": False, **rarely}
    producer = KafkaProducer(ProducerConfig(client, "p", timeout_s=60.0), Metrics())
    results: dict[str, ProduceFailure | None] = {}

    def send(name: str, partition: int) -> None:
        producer.send(topic, b"x", b"k", [("ce_id", name.encode())], partial(results.__setitem__, name), partition)

    async def until(holds: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        async with asyncio.timeout(limit_s):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.02)

    await producer.start()
    try:
        send("warm", warm)
        await until(lambda: "warm" in results)
        admin = KafkaAdmin({"bootstrap.servers": cluster.direct})
        admin.set_configs(topic, {"min.insync.replicas": "3"})
        cluster.others(leader)[0].kill()
        await until(lambda: cluster.in_sync(topic, partition) == 2)
        # The leader may see this later. Until then it accepts a record, and waits for the third replica in vain.
        once = {"retries": 0, "request.timeout.ms": 2_000}
        await until(lambda: _problem(cluster.direct, topic, partition, once) == KafkaError.NOT_ENOUGH_REPLICAS)
        await asyncio.to_thread(leader.proxy.hold)
        send("refused", partition)
        await until(lambda: leader.proxy.held > 0)
        admin.set_configs(topic, {"min.insync.replicas": "2"})
        assert await asyncio.to_thread(_problem, cluster.direct, topic, warm) is None
        send("stored", partition)
        with suppress(TimeoutError):
            await until(lambda: "stored" in _ids(cluster, topic), _OVERTAKEN_S)
        await asyncio.to_thread(leader.proxy.forward)
        await until(lambda: len(results) == 3)
    finally:
        await producer.stop(1.0)
    return results, _ids(cluster, topic)


def _ids(cluster: KafkaCluster, topic: str) -> set[str]:
    return {fact.id for fact in reader.stored(cluster.direct, topic)}


def _problem(bootstrap: str, topic: str, partition: int, settings: Mapping[str, int] | None = None) -> int | None:
    """The code of the error with which Kafka ends a record of another client; None = it is stored."""
    ended: list[KafkaError | None] = []
    other = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **(settings or {})})
    other.produce(topic, b"x", b"k", partition, lambda error, _: ended.append(error), headers=[("ce_id", b"other")])
    assert other.flush(LIMIT_S) == 0
    return ended[0].code() if ended[0] is not None else None
