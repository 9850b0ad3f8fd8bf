"""The embedded Kafka for real: events survive a restart, clean and unclean."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.cli.output.steps import Steps
from app.local.kafka import EmbeddedKafka
from app.local.kafka.ports import free_port
from app.local.packaged import example
from app.local.stack import Stack, StackConfig
from knative.errors import NotReadyError, PenstockError, UsageError
from tests.support.proc import children

_JARS = Path(__file__).parents[2] / ".penstock" / "kafka"


def _produce(bootstrap: str, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.max.bytes": 2_000_000})
    producer.produce(topic, value, on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(180) == 0
    assert errors == [None]


def _read(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    end = time.monotonic() + 180
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(value)
    consumer.close()
    return values


def test_group_reads_what_was_produced(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Coordinator, group and a record of nearly 2 MB."""
    topic = make_topic(2, max_message_bytes=2_000_000)
    big = os.urandom(1_900_000)
    _produce(kafka.bootstrap, topic, big)
    assert _read(kafka.bootstrap, topic, f"{topic}-group", 1) == [big]


def test_unknown_topics_are_not_made(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    """A typing mistake in a topic's name must fail, not make a topic."""
    name = topic_name()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert admin.list_topics(topic=name, timeout=120).topics[name].error is not None
    assert name not in admin.list_topics(timeout=120).topics


def test_data_survives_restarts(tmp_path: Path) -> None:
    """One record before a clean stop, one before a kill; both are there afterwards, on the same port."""
    broker = EmbeddedKafka(tmp_path, port=0, heap="256m", jars_root=_JARS)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(180)
        _produce(broker.bootstrap, "kept", b"one")
        assert broker.stop()
        assert broker.pid is None
        broker.start()
        _produce(broker.bootstrap, "kept", b"two")
        broker.kill()
        broker.start()
        assert _read(broker.bootstrap, "kept", "g", 2) == [b"one", b"two"]
        with pytest.raises(UsageError, match="Another command runs a Kafka in"):
            EmbeddedKafka(tmp_path, port=0, jars_root=_JARS).start()
    finally:
        broker.stop()


def test_heap_that_is_too_small_is_said_without_a_word_about_removing_data(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"Too small maximum heap\. Check --heap, such as 512m") as caught:
        EmbeddedKafka(tmp_path, port=0, heap="5", jars_root=_JARS).start()
    assert "remove" not in str(caught.value)


def test_busy_port_is_named(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The sentence names the port and how to choose another."""
    with pytest.raises(PenstockError, match=f"Port {kafka.port} .* is already in use.*--port") as caught:
        EmbeddedKafka(tmp_path, port=kafka.port, jars_root=_JARS).start()
    assert caught.value.exit_code == 1
    assert not (tmp_path / "storage").exists()


def test_time_limit_of_up_is_that_of_its_kafka_too(tmp_path: Path) -> None:
    """The limit is shorter than any start of a JVM. It was a minute for Kafka, whatever the command said."""
    config = StackConfig(
        home=tmp_path,
        resources=example("quickstart"),
        jars_root=_JARS,
        kafka_port=free_port(),
        kafka_data=tmp_path / "kafka",
        http_port=free_port(),
        admin_port=0,
        subscriber_port=0,
        ready_limit_s=0.2,
    )
    stack, before = Stack(config, Steps()), children(os.getpid())
    with pytest.raises(NotReadyError, match="--timeout"):
        stack.start()
    assert not stack.runs
    assert children(os.getpid()) == before


def test_broker_that_has_outlived_its_command_keeps_its_storage(own_kafka: EmbeddedKafka) -> None:
    """Where the system does not end it with that command, Kafka's own lock protects its data."""
    (own_kafka.data_dir / "lock").unlink()
    with pytest.raises(PenstockError, match=r"exited during its start .*Failed to acquire lock on file \.lock"):
        EmbeddedKafka(own_kafka.data_dir, port=free_port(), heap="256m", jars_root=_JARS).start(180)
    assert own_kafka.pid is not None
