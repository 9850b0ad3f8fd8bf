"""A Kafka that creates topics on demand, as Kafka does by default: removed topics do not come back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from app.worker.producer.config import ProducerConfig
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tests.support.installation import Installation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import LoadProcess, SinkProcess, penstock, wait_until
from tests.support.resources import Wanted

pytestmark = pytest.mark.system

LIMIT_S = 180.0
LOOK_S = 40.0  #: librdkafka asks for its topics every 30 s


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("auto")
    with KafkaCluster(folder, brokers=1, also=lambda _: {"auto.create.topics.enable": "true"}) as cluster:
        yield cluster


def _topics(kafka: KafkaCluster) -> set[str]:
    return set(KafkaAdmin({"bootstrap.servers": kafka.direct}, LIMIT_S).cluster().topics)


def _looked_at(client: dict[str, str], topic: str) -> None:
    with pytest.raises(NoSuchTopicError), TopicReader(topic, client):
        pass


def _ends(client: dict[str, str], topic: str) -> None:
    with pytest.raises(KafkaFailed):
        KafkaAdmin(client, 5.0).end_offsets([(topic, 0)])


def _produced(client: dict[str, str], topic: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({**ProducerConfig(client, "p").client(), "topic.metadata.propagation.max.ms": 1000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    (error,) = errors
    assert error is not None
    assert error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


@pytest.mark.parametrize("asks", [_looked_at, _ends, _produced])
def test_client_that_asks_for_a_topic_does_not_create_it(
    asks: Callable[[dict[str, str], str], None], kafka: KafkaCluster
) -> None:
    topic = f"no{asks.__name__}"
    asks({"bootstrap.servers": kafka.bootstrap}, topic)
    assert topic not in _topics(kafka)


def test_doctor_says_that_this_kafka_creates_topics_on_demand(kafka: KafkaCluster) -> None:
    done = penstock("doctor", "-o", "json", settings={"PENSTOCK_KAFKA": kafka.bootstrap})
    (said,) = (check for check in json.loads(done.stdout) if check["check"] == "topics on demand")
    assert said["level"] == "warning"
    assert "auto.create.topics.enable=false" in said["hint"]


def test_topics_of_removed_channels_do_not_come_back(kafka: KafkaCluster, tmp_path: Path) -> None:
    stays = Installation(kafka.bootstrap, tmp_path)
    removed = [stays.beside(f"gone{number}") for number in range(3)]
    with SinkProcess(tmp_path, {"a": ""}) as sink:
        stays.write([Wanted("a", sink.url("a"))])
        for channel in removed:
            channel.write([])
        with stays.worker() as worker:
            worker.wait_ready()
            stays.wait_subscribers(worker, 1)
            for channel in removed:
                with LoadProcess(tmp_path, channel.url(worker), events=20, rate=100) as load:
                    assert load.result(LIMIT_S)["accepted"] == 20
            for channel in removed:
                (channel.resources.folder / f"{channel.resources.channel}.yaml").unlink()
            gone = {
                topic
                for installation in removed
                for topic in (installation.resources.topic, installation.resources.dlq_topic)
            }

            def are_gone() -> bool:
                done = stays.penstock("remove", "--unlisted", "--yes", "--timeout", str(LIMIT_S))
                assert done.returncode == 0, done.stderr
                return not gone & _topics(kafka)

            wait_until("the topics are removed", are_gone, LIMIT_S)
            with LoadProcess(tmp_path, stays.url(worker), events=int(50 * LOOK_S), rate=50, limit_s=LIMIT_S) as load:
                _look(kafka, gone)
                assert load.result(LIMIT_S)["accepted"] == 50 * LOOK_S
            _look(kafka, gone)  # and with nothing to do
            assert worker.terminate() == 0, worker.tail()


def _look(kafka: KafkaCluster, gone: set[str]) -> None:
    end = time.monotonic() + LOOK_S
    while time.monotonic() < end:
        assert not gone & _topics(kafka)
        time.sleep(1.0)
