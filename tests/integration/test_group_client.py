"""Offsets of groups without members on a real Kafka: read, committed, refused, and while connections break."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType

import pytest
from aiokafka.client import ConnectionGroup
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from app.local.kafka import EmbeddedKafka
from tables.kafka.admin.answers import GroupOffset
from tables.kafka.admin.group_client import GroupClient
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaUnavailable
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import free_port

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

_LIMIT_S = 300.0
COORDINATION = ConnectionGroup.COORDINATION


@asynccontextmanager
async def client_of(bootstrap: str) -> AsyncIterator[GroupClient]:
    client = GroupClient({"bootstrap.servers": bootstrap}, "test")
    try:
        yield client
    finally:
        await client.close()


def places(topic: str, *offsets: int, metadata: str = "") -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset, metadata) for number, offset in enumerate(offsets)]


async def until_it_commits(client: GroupClient, topic: str) -> None:
    """A new Kafka has no coordinator yet, and a new topic is not known everywhere at once."""
    async with asyncio.timeout(_LIMIT_S):
        while True:
            try:
                return await client.commit(f"g-{topic}", places(topic, 1), lambda: True)
            except KafkaException:
                await asyncio.sleep(0.1)


async def test_what_is_committed_is_read(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """By this client, and by Kafka's own tools."""
    topic = make_topic(2)
    async with client_of(kafka.bootstrap) as client:
        assert await client.fetch(f"g-{topic}", topic, [0, 1], _LIMIT_S) == {}
        await client.commit(f"g-{topic}", places(topic, 7, metadata="p2:é"), lambda: True)
        assert await client.fetch(f"g-{topic}", topic, [0, 1], _LIMIT_S) == {0: GroupOffset(7, "p2:é")}
        await client.commit(f"g-{topic}", places(topic, 8, 9), lambda: True)
        assert await client.fetch(f"g-{topic}", topic, [0, 1], _LIMIT_S) == {
            0: GroupOffset(8, ""),
            1: GroupOffset(9, ""),
        }
        assert await client.fetch(f"h-{topic}", topic, [0, 1], _LIMIT_S) == {}
    committed = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.committed(f"g-{topic}")
    assert {number: group_offset.offset for (_, number), group_offset in committed.items()} == {0: 8, 1: 9}


async def test_librdkafka_reads_the_metadata_as_it_was_written(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """Of every length: librdkafka copies it without an end, and memory goes on after it."""
    topic = make_topic(100)
    offsets = {number: GroupOffset(1, "x" * number) for number in range(100)}
    async with client_of(kafka.bootstrap) as client:
        await until_it_commits(client, topic)
        some = [
            TopicPartition(topic, number, group_offset.offset, group_offset.metadata)
            for number, group_offset in offsets.items()
        ]
        await client.commit(f"g-{topic}", some, lambda: True)
        assert await client.fetch(f"g-{topic}", topic, range(100), _LIMIT_S) == offsets
    committed = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.committed(f"g-{topic}")
    assert {number: group_offset.metadata or "" for (_, number), group_offset in committed.items()} == {
        number: group_offset.metadata for number, group_offset in offsets.items()
    }


async def test_what_may_not_be_sent_is_not_sent(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    async with client_of(kafka.bootstrap) as client:
        with pytest.raises(KafkaException, match="not confirmed"):
            await client.commit(f"g-{topic}", places(topic, 7), lambda: False)
        assert await client.fetch(f"g-{topic}", topic, [0], _LIMIT_S) == {}


async def test_nothing_runs_between_the_check_and_the_socket(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """A process that is frozen there commits when it goes on, below what another one has committed meanwhile."""
    topic = make_topic(1)
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)
        if called:
            sys.setprofile(None)

    def may_send() -> bool:
        sys.setprofile(note)
        return True

    async with client_of(kafka.bootstrap) as client:
        await until_it_commits(client, topic)
        await client.commit(f"g-{topic}", places(topic, 7), may_send)
    assert called == ["StreamWriter.write"]


async def test_what_kafka_refuses_is_an_error(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    async with client_of(kafka.bootstrap) as client:
        await until_it_commits(client, topic)
        with pytest.raises(KafkaException) as refused:
            await client.commit(f"g-{topic}", places(topic, 7, metadata="x" * 5_000), lambda: True)
        assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
        with pytest.raises(KafkaException) as unknown:
            await client.commit(f"g-{topic}", places(f"{topic}-not-there", 7), lambda: True)
        assert unknown.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


async def test_kafka_that_is_not_there_is_an_error_in_time() -> None:
    async with client_of(f"127.0.0.1:{free_port()}") as client:
        with pytest.raises(KafkaUnavailable, match="reading the offsets of group g"):
            await client.fetch("g", "t", [0], 1.0)
        with pytest.raises(KafkaException) as refused:
            await client.commit("g", places("t", 1), lambda: True)
        assert refused.value.args[0].code() == KafkaError._TRANSPORT


async def test_connections_that_break_are_made_again(proxied: KafkaCluster, topic_name: Callable[[], str]) -> None:
    """Reset in the middle of requests, refused for a while, let through again: the last commit stands."""
    topic = topic_name()
    proxied.create_topic(topic, 1)
    proxy, failed = proxied.brokers[0].proxy, 0
    async with client_of(proxied.bootstrap) as client:
        await client.fetch(topic, topic, [0], _LIMIT_S)
        proxy.reset(every_s=0.02)
        for offset in range(300):
            try:
                await client.commit(topic, places(topic, offset), lambda: True)
            except KafkaException:
                failed += 1
        await asyncio.to_thread(proxy.refuse)
        with pytest.raises(KafkaException):
            await client.commit(topic, places(topic, 1_000), lambda: True)
        await asyncio.to_thread(proxy.forward)
        async with asyncio.timeout(_LIMIT_S):
            while (await client.fetch(topic, topic, [0], _LIMIT_S))[0].offset != 2_000:
                try:
                    await client.commit(topic, places(topic, 2_000), lambda: True)
                except KafkaException:
                    await asyncio.sleep(0.1)
    assert failed > 0, "nothing was broken"


async def test_every_connection_drops_what_does_not_arrive_in_time(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """Also the next one, when a connection was closed."""
    topic = make_topic(1)
    client = GroupClient({"bootstrap.servers": kafka.bootstrap}, "test", arrive_s=4.0)
    try:
        for _ in range(2):
            await until_it_commits(client, topic)
            aiokafka_client = client._coordinators._client
            assert aiokafka_client is not None
            (connection,) = [at for (_, kind), at in aiokafka_client._conns.items() if kind is COORDINATION]
            of_kernel = connection._writer.get_extra_info("socket")
            assert of_kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4_000
            assert of_kernel.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)
            connection.close()
    finally:
        await client.close()
