"""Consumer groups of both protocols on a real Kafka, and while connections to their coordinators break."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from app.local.kafka import EmbeddedKafka
from tables.kafka.admin.answers import GroupInfo, GroupOffset
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaUnavailable
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import free_port, wait_until

pytestmark = pytest.mark.integration

_LIMIT_S = 300.0
_ROUNDS = 15


@contextmanager
def member(kafka: EmbeddedKafka, group: str, protocol: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "group.protocol": protocol})
    try:
        consumer.subscribe([topic])
        wait_until("it is a member", lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), _LIMIT_S)
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_from_its_first_member_to_its_end(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], protocol: str
) -> None:
    topic, group = make_topic(2), f"g-{uuid.uuid4()}"
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, _LIMIT_S).groups
    assert groups.describe(group) is None
    with member(kafka, group, protocol, topic):
        assert groups.describe(group) == GroupInfo("Stable", 1)
        with pytest.raises(KafkaFailed, match=f"^committing offsets of group {group}: "):
            groups.commit(group, {(topic, 0): 1})
        with pytest.raises(KafkaFailed, match=f"^deleting group {group}: .*not empty"):
            groups.delete(group)
    assert groups.describe(group) == GroupInfo("Empty", 0)
    groups.commit(group, {(topic, 0): 1, (topic, 1): 2})
    assert groups.committed(group) == {(topic, 0): GroupOffset(1, ""), (topic, 1): GroupOffset(2, "")}
    assert groups.committed_by({group: [(topic, 1)], f"no-{group}": None}) == {
        group: {(topic, 1): GroupOffset(2, "")},
        f"no-{group}": {},
    }
    groups.delete(group)
    assert groups.describe_all([group, f"no-{group}"]) == {}
    assert groups.committed(group, [(topic, 0)]) == {}


def test_topic_that_is_not_there(kafka: EmbeddedKafka) -> None:
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, _LIMIT_S).groups
    with pytest.raises(KafkaNotFound, match=r"^committing offsets of group g-1: .*Unknown topic"):
        groups.commit("g-1", {("not-there", 0): 1})


def test_kafka_that_does_not_run_is_named() -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    groups = KafkaAdmin({"bootstrap.servers": bootstrap}, 0.5).groups
    why = rf"group g: Kafka does not answer \(no broker of {bootstrap} can be reached\)"
    with pytest.raises(KafkaUnavailable, match=f"^describing {why}"):
        groups.describe("g")
    with pytest.raises(KafkaUnavailable, match=f"^committing offsets of {why}"):
        groups.commit("g", {("t", 0): 1})
    with pytest.raises(KafkaUnavailable, match=f"^deleting {why}"):
        groups.delete("g")


def test_time_limit_of_requests_is_that_of_kafka(kafka: EmbeddedKafka) -> None:
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups
    with pytest.raises(KafkaUnavailable, match=r"^asking about groups: Kafka does not answer \(time limit of 0\.1 s\)"):
        groups._run(lambda _client: asyncio.sleep(_LIMIT_S), 0.1)


def test_groups_by_the_thousand(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    names = [f"{topic}-{number}" for number in range(2_000)]
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, _LIMIT_S).groups
    existing = names[::500]
    for name in existing:
        groups.commit(name, {(topic, 0): 7})
    assert groups.describe_all(names) == dict.fromkeys(existing, GroupInfo("Empty", 0))
    committed = groups.committed_by(dict.fromkeys(names))
    assert {name for name, offsets in committed.items() if offsets == {(topic, 0): GroupOffset(7, "")}} == set(existing)
    assert len(committed) == len(names)


def test_connections_that_break_end_no_process(proxied: KafkaCluster, topic_name: Callable[[], str]) -> None:
    """Reset in the middle of requests, from several threads; librdkafka's client has ended processes so."""
    topic = topic_name()
    names = [f"{topic}-{number}" for number in range(8)]
    proxied.create_topic(topic, 1)
    admin = KafkaAdmin({"bootstrap.servers": proxied.bootstrap}, _LIMIT_S)
    for name in names:
        admin.groups.commit(name, {(topic, 0): 7})
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(_ROUNDS):
            infos = admin.groups.describe_all(names)
            offsets = admin.groups.committed_by(dict.fromkeys(names))
            if infos != dict.fromkeys(names, GroupInfo("Empty", 0)):
                wrong.append(infos)
            if offsets != {name: {(topic, 0): GroupOffset(7, "")} for name in names}:
                wrong.append(offsets)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    until_s, gap_s = time.monotonic() + _LIMIT_S, 0.02
    while any(thread.is_alive() for thread in threads):
        assert time.monotonic() < until_s, "requests hang"
        proxied.brokers[0].proxy.reset()
        time.sleep(gap_s)
        gap_s *= 1.02  # on a busy machine no answer would ever come in the time of the first ones
    assert wrong == []
    assert admin.groups.describe_all(names) == dict.fromkeys(names, GroupInfo("Empty", 0))
    admin.close()
