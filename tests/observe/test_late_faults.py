"""Alerts of what real faults make late, large or lost: a Kafka that answers slowly, subscribers that are down, buffers
that are too large for the memory, a process that gets no CPU, retention.

Pending is enough: that an alert fires when a fault stays for longer than its `for` is promtool's part.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger import reader
from tests.support.processes import Worker, get, wait_until
from tests.support.prometheus import Alert, Prometheus
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

LIMIT_S = 300.0
RETRY = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
STORED_LATE, STORED_AGAIN = ("PenstockEventsStoredLate", ""), ("PenstockEventsStoredAgain", "")
BEHIND, GROWS = ("PenstockSubscriptionBehind", "test/one"), ("PenstockLagGrows", "test/one")
MEMORY, LOOP, EXPIRED = (
    ("PenstockMemoryNearLimit", ""),
    ("PenstockEventLoopLate", ""),
    ("PenstockEventsExpired", "test/one"),
)
#: The age of what is stored here is its record's: the subscriber need not be down for so long.
OLD_S = 1200
LARGE_BYTES, LARGE, SMALL = 900_000, 650, 1_500


def _wait_alerts(prometheus: Prometheus, alerts: set[Alert], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Until they are there; a busy machine may cause others."""
    prometheus.wait_alerts(alerts, meanwhile, lambda alert: alert in alerts)


def test_kafka_is_slow_while_it_refuses_an_event(tmp_path: Path) -> None:
    """The ingress takes larger events than the topics do: Kafka's refusal gives the producer a new epoch, while another
    event waits for its acknowledgement."""
    with KafkaCluster(tmp_path / "kafka", brokers=1) as cluster:
        channel = Installation(cluster.bootstrap, tmp_path)
        other = channel.beside("other")
        channel.write(())
        other.write(())
        env = {"PENSTOCK_EVENT_BYTES_MAX": "4194304", "PENSTOCK_PRODUCE_TIMEOUT_S": "60"}
        with channel.worker("controller"), channel.worker("ingress", controller=False, env=env) as ingress:

            def send(installation: Installation, body: bytes = b"{}") -> int:
                return post(ingress.port, installation.resources.path, uuid.uuid4().hex, body).status

            ingress.wait_ready()
            wait_until("both channels take events", lambda: {send(channel), send(other)} == {202}, LIMIT_S)
            with (
                Prometheus(tmp_path / "prometheus", [(f"127.0.0.1:{ingress.admin_port}", {})]) as prometheus,
                ThreadPoolExecutor(2) as senders,
            ):
                prometheus.wait_ready()
                wait_until("rules are evaluated", lambda: bool(prometheus.query("ALERTS or up == 1")), LIMIT_S)
                assert not {STORED_LATE, STORED_AGAIN} & prometheus.alerts()
                cluster.brokers[0].pause()
                try:
                    waiting = senders.submit(send, channel)
                    refused = senders.submit(send, other, os.urandom(2 * 1_048_576))
                    in_flight = b"penstock_ingress_in_flight_requests 2.0"
                    wait_until("both wait", lambda: in_flight in get(ingress.admin_port, "/metrics")[1], LIMIT_S)
                    time.sleep(3)  # what is slow takes its time
                finally:
                    cluster.brokers[0].resume()
                assert (waiting.result(LIMIT_S), refused.result(LIMIT_S)) == (202, 413)
                _wait_alerts(prometheus, {STORED_LATE, STORED_AGAIN}, lambda: send(channel))


def test_backlog_that_grows_in_memory_and_expires(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    channel = Installation(kafka.bootstrap, tmp_path)
    topic = channel.resources.topic
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "lz4"})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def store(count: int, body: bytes = b"{}") -> None:
        """Events that were accepted some time ago."""
        for _ in range(count):
            attributes = {"specversion": "1.0", "id": uuid.uuid4().hex, "source": "/t", "type": "t"}
            headers: list[tuple[str, str | bytes | None]] = [(f"ce_{name}", text) for name, text in attributes.items()]
            producer.produce(topic, body, headers=headers, timestamp=round(1000 * (time.time() - OLD_S)))
            producer.poll(0)
        assert producer.flush(LIMIT_S) == 0

    with ScriptedSubscriber() as subscriber, channel.worker("controller") as controller:
        channel.write([Wanted("one", subscriber.script("/one", says(503)), delivery=RETRY)])
        too_large = {"PENSTOCK_BUFFER_BYTES_MAX": "1073741824"}
        with channel.worker("dispatcher", controller=False, env=too_large) as dispatcher:
            channel.wait_subscribers(controller, 1)
            store(SMALL)
            lag = b'penstock_lag_events{subscription="test/one"} '
            wait_until("it knows its lag", lambda: _value(dispatcher, lag) >= SMALL, LIMIT_S)
            targets: list[tuple[str, dict[str, str]]] = [(f"127.0.0.1:{dispatcher.admin_port}", {})]
            with Prometheus(tmp_path / "prometheus", targets) as prometheus:
                prometheus.wait_ready()
                _wait_alerts(prometheus, {BEHIND})
                assert not {GROWS, MEMORY, LOOP, EXPIRED} & prometheus.alerts()
                store(LARGE, bytes(LARGE_BYTES))
                _wait_alerts(prometheus, {BEHIND, MEMORY})
                _wait_alerts(prometheus, {BEHIND, GROWS}, lambda: store(1))
                _wait_alerts(prometheus, {LOOP}, lambda: _without_cpu(dispatcher))
                assert EXPIRED not in prometheus.alerts()
                assert dispatcher.terminate() == 0
                whole = TopicPartition(topic, 0, reader.ends(kafka.bootstrap, topic)[0])
                admin.delete_records([whole])[whole].result(LIMIT_S)
                at = {"PENSTOCK_ADMIN_PORT": str(dispatcher.admin_port)}
                with channel.worker("dispatcher", controller=False, env=at):
                    _wait_alerts(prometheus, {EXPIRED})
                    wait_until("no other is left", lambda: not {BEHIND, MEMORY} & prometheus.alerts(), LIMIT_S)


def _value(worker: Worker, series: bytes) -> float:
    lines = get(worker.admin_port, "/metrics")[1].splitlines()
    return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))


def _without_cpu(worker: Worker) -> None:
    worker.pause()
    try:
        time.sleep(2)
    finally:
        worker.resume()
