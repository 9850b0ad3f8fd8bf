"""Alerts of real faults: Kafka that does not answer, no dispatcher, no controller.

Pending is enough: that an alert fires when a fault stays for longer than its `for` is promtool's part.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.installation import Installation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import wait_until
from tests.support.prometheus import Alert, Prometheus
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

LIMIT_S = 300.0
RETRY = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
#: What the faults below cause. A busy machine may cause others.
NAMES = {
    "PenstockIngressRefusesEvents",
    "PenstockNoController",
    "PenstockNoMetrics",
    "PenstockSubscriptionNotServed",
    "PenstockWaitingForKafka",
}
_REFUSED, _NO_CONTROLLER = ("PenstockIngressRefusesEvents", ""), ("PenstockNoController", "")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A Kafka that no other test uses."""
    with KafkaCluster(tmp_path / "kafka", brokers=1) as cluster:
        yield cluster


def _wait_alerts(
    prometheus: Prometheus,
    alerts: set[Alert],
    meanwhile: Callable[[], object] = lambda: None,
    beside: Set[Alert] = frozenset(),
) -> None:
    """Until these of NAMES are there, and no others; those `beside` them may be."""
    prometheus.wait_alerts(alerts, meanwhile, lambda alert: alert[0] in NAMES and alert not in beside)


def test_faults_are_found_and_their_ends_too(broker: KafkaCluster, tmp_path: Path) -> None:
    channel = Installation(broker.bootstrap, tmp_path, env={"PENSTOCK_PRODUCE_TIMEOUT_S": "2"})
    beside = replace(channel, channel="broker", is_broker=True)
    not_served = {("PenstockSubscriptionNotServed", name) for name in ("test/one", "test/trigger:two")}
    with ScriptedSubscriber() as subscriber:
        channel.write([Wanted("one", subscriber.script("/one", says(200)), delivery=RETRY)])
        beside.write([Wanted("two", subscriber.script("/two", says(200)))])
        with (
            channel.worker("controller") as controller,
            channel.worker("ingress", controller=False) as ingress,
            channel.worker("dispatcher", controller=False) as dispatcher,
        ):
            for process in (controller, ingress, dispatcher):
                process.wait_ready()
            channel.wait_subscribers(ingress, 1)
            beside.wait_triggers(["two"])
            targets: list[tuple[str, dict[str, str]]] = [
                (f"127.0.0.1:{process.admin_port}", {}) for process in (controller, ingress, dispatcher)
            ]
            with Prometheus(tmp_path / "prometheus", targets) as prometheus:
                prometheus.wait_ready()

                def send() -> int:
                    return post(ingress.port, channel.resources.path, uuid.uuid4().hex, b"{}").status

                led = 'penstock_subscription_info{subscription=~"test/.*"}'
                wait_until("the controller leads", lambda: len(prometheus.query(led)) == 2, LIMIT_S)
                _wait_alerts(prometheus, set(), send)

                # An event that is settled while Kafka is away: its offset cannot be committed.
                subscriber.script("/one", says(503))
                assert send() == 202
                wait_until("its first attempt failed", lambda: bool(subscriber.requests("/one")), LIMIT_S)
                broker.brokers[0].pause()
                try:
                    subscriber.script("/one", says(200))
                    # Nobody can lead meanwhile.
                    away = {("PenstockWaitingForKafka", ""), _REFUSED}
                    _wait_alerts(prometheus, away, send, beside={_NO_CONTROLLER})
                finally:
                    broker.brokers[0].resume()
                # The requests that were refused stay in the window of their alert.
                _wait_alerts(prometheus, set(), beside={_REFUSED})

                dispatcher.kill()
                _wait_alerts(prometheus, not_served, beside={_REFUSED})
                with channel.worker("dispatcher", controller=False, env=_at(dispatcher.admin_port)) as next_one:
                    next_one.wait_ready()
                    _wait_alerts(prometheus, set(), beside={_REFUSED})
                    controller.kill()
                    _wait_alerts(prometheus, {_NO_CONTROLLER}, beside={_REFUSED})
                ingress.kill()
                _wait_alerts(prometheus, {("PenstockNoMetrics", "")}, beside={_REFUSED})


def _at(port: int) -> dict[str, str]:
    """Settings of a worker that takes the place of another one, whose metrics are scraped at this port."""
    return {"PENSTOCK_ADMIN_PORT": str(port)}
