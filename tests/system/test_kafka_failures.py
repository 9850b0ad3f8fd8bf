"""Kafka fails while workers live: what was settled is not delivered again, and delivery goes on by itself."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.chaos.kafka import SEED
from tests.chaos.scene import Scene, run
from tests.installation import Installation
from tests.kafka_cluster import KafkaCluster
from tests.ledger.facts import Fault
from tests.processes import Worker, get, wait_until
from tests.resources import ORDERS

pytestmark = pytest.mark.system

FROZEN_S = 12.0  # longer than a session
LIMIT_S = 30.0


def _waiting(worker: Worker) -> set[str]:
    """Subscriptions for which the worker makes no first attempts, by its metrics."""
    _, body = get(worker.admin_port, "/metrics")
    return set(re.findall(r'^penstock_waiting_for_kafka\{subscription="([^"]+)"\} 1', body.decode(), re.MULTILINE))


def test_a_frozen_kafka_repeats_nothing(tmp_path: Path) -> None:
    """The worker loses all partitions when its session ends, has them again, and goes on where it was."""
    shown: list[set[str]] = []
    with KafkaCluster(tmp_path / "kafka", brokers=1) as cluster:
        installation = Installation(cluster.bootstrap, tmp_path, partitions=4, env={"PENSTOCK_PRODUCE_TIMEOUT_S": "3"})

        def freeze(workers: list[Worker]) -> Fault:
            from_s = time.time()
            cluster.brokers[0].pause()
            wait_until("the workers wait for Kafka", lambda: all(map(_waiting, workers)), LIMIT_S)
            time.sleep(max(0.0, from_s + FROZEN_S - time.time()))
            cluster.brokers[0].resume()
            to_s = time.time()
            wait_until("they wait no more", lambda: not any(map(_waiting, workers)), LIMIT_S)
            shown.extend(map(_waiting, workers))
            return Fault("kafka", from_s, to_s, SEED)

        verdict = run(installation, tmp_path, Scene(workers=1), freeze)
    print(verdict)
    assert verdict.violations == (), str(verdict)
    assert verdict.report.subscriptions == len(ORDERS)
    assert verdict.report.duplicates == 0, str(verdict)
    assert shown == [set()]
