"""The administration of topics, offsets and groups on a real Kafka, and on one that does not run."""

from __future__ import annotations

import socket
import subprocess
import sys
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from tables.kafka.admin.answers import GroupOffset, TopicInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaInvalid, KafkaNotFound, KafkaUnavailable, leave_out
from tests.support.processes import REPOSITORY, free_port, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> KafkaAdmin:
    return KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 180.0)


def test_topic_from_its_creation_to_its_end(admin: KafkaAdmin, topic_name: Callable[[], str]) -> None:
    topic, other = topic_name(), topic_name()

    assert admin.create_topic(topic, 2, 1, {"retention.ms": "1000"})
    _wait("it is there", lambda: bool(_found(admin, topic)))
    assert not admin.create_topic(topic, 5, 1, {}), "there is one already"
    (first,) = admin.describe_topics([topic, other], leave_out(KafkaNotFound)).values()
    assert (first.name, first.partitions, first.replicas) == (topic, (0, 1), (1, 1))
    admin.add_partitions(topic, 3)
    admin.add_partitions(topic, 3)
    _wait("three partitions", lambda: sorted(admin.probe().topics[topic]) == [0, 1, 2])
    admin.set_configs(topic, {"retention.ms": "2000"})
    _wait("the config", lambda: admin.topic_configs([topic, other])[topic]["retention.ms"] == "2000")
    admin.set_configs(topic, {"segment.ms": "3000"}, ["retention.ms"])
    _wait("the default again", lambda: admin.topic_configs([topic])[topic] == {"segment.ms": "3000"})
    admin.set_configs(topic, {}, ["segment.ms", "retention.ms"])
    _wait("no config of its own", lambda: admin.topic_configs([topic])[topic] == {})
    problems = admin.delete_topics([topic, other])
    assert [(name, type(problem)) for name, problem in problems.items()] == [(other, KafkaNotFound)]
    _wait("it is gone", lambda: not _found(admin, topic))
    with pytest.raises(KafkaNotFound, match=f"describing topic {topic}"):
        admin.describe_topics([topic])
    assert admin.create_topic(topic, 1, 1, {})
    _wait("it is there again", lambda: bool(_found(admin, topic)))
    assert admin.describe_topics([topic])[topic].id not in ("", first.id)


def _wait(what: str, holds: Callable[[], bool]) -> None:
    """Brokers hear of a change a moment after the controller of Kafka has made it."""
    wait_until(what, holds, 180.0)


def _found(admin: KafkaAdmin, topic: str) -> dict[str, TopicInfo]:
    return admin.describe_topics([topic], leave_out(KafkaNotFound))


@pytest.mark.parametrize("name", ["", "a b", "x" * 300])
def test_name_that_kafka_does_not_take(admin: KafkaAdmin, name: str) -> None:
    with pytest.raises(KafkaInvalid):
        admin.describe_topics([name])


def test_more_replicas_than_brokers(admin: KafkaAdmin, topic_name: Callable[[], str]) -> None:
    with pytest.raises(KafkaInvalid, match=r"lower spec\.replicationFactor"):
        admin.create_topic(topic_name(), 1, 5, {})


def test_offsets_of_partitions_and_of_a_group(
    kafka: EmbeddedKafka, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    topic, group = make_topic(2), f"group-{uuid.uuid4()}"
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"v", partition=1)
    assert producer.flush(180) == 0
    places = [(topic, 0), (topic, 1)]

    assert admin.first_offsets(places) == {(topic, 0): 0, (topic, 1): 0}
    assert admin.end_offsets(places) == {(topic, 0): 0, (topic, 1): 3}
    assert admin.offsets_at(places, 0) == {(topic, 0): -1, (topic, 1): 0}
    missing: list[object] = []
    assert admin.end_offsets([*places, (topic, 7)], lambda place, _: missing.append(place))[topic, 1] == 3
    assert missing == [(topic, 7)]
    with pytest.raises(KafkaNotFound):
        admin.end_offsets([*places, (topic, 7)])
    with pytest.raises(KafkaNotFound):
        admin.end_offsets([(topic, 7)])

    assert admin.groups.committed(group, places) == {}
    assert admin.groups.committed(group, []) == {}
    assert admin.groups.describe(group) is None
    admin.groups.commit(group, {(topic, 1): 2})
    assert admin.groups.committed(group) == {(topic, 1): GroupOffset(2, "")}
    assert group in admin.group_ids()
    info = admin.groups.describe(group)
    assert info is not None
    assert (info.state, info.members) == ("Empty", 0)
    admin.groups.delete(group)
    admin.groups.delete(group)
    assert admin.groups.describe(group) is None


_FIRST_REQUEST = """
import sys
from tables.kafka.admin.kafka_admin import KafkaAdmin

print(KafkaAdmin({"bootstrap.servers": sys.argv[1]}, 60.0).groups.committed("group", [("topic", 0)]))
"""


def test_first_request_about_a_group_does_not_end_the_process(own_kafka: EmbeddedKafka) -> None:
    """The coordinator of a Kafka that has never had a group is not ready; its answer has ended processes by SIGSEGV."""
    command = [sys.executable, "-c", _FIRST_REQUEST, own_kafka.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, cwd=REPOSITORY)
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr


def test_kafka_that_does_not_run() -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    admin = KafkaAdmin({"bootstrap.servers": bootstrap, "log_level": 0}, 0.5)

    with pytest.raises(KafkaUnavailable, match=rf"^Kafka at {bootstrap} does not answer \(connection refused\)"):
        admin.probe()
    with pytest.raises(KafkaUnavailable, match=f"^Kafka at {bootstrap} does not answer"):
        admin.cluster()
    with pytest.raises(KafkaUnavailable, match=r"^describing topic t: Kafka does not answer"):
        admin.describe_topics(["t"])
    admin.close()


def test_kafka_that_is_silent_has_the_limit_of_the_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        admin = KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}", "log_level": 0}, 3600.0)
        with pytest.raises(KafkaUnavailable, match="does not answer"):
            admin.probe(0.5)
