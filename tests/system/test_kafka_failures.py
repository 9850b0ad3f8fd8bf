"""A Kafka that does not answer is shown, and costs no duplicates."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.chaos.world import HALF, judged, load, settle, world
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import Worker, get, wait_until

pytestmark = pytest.mark.system

FROZEN_S = 12.0  # longer than a session
LIMIT_S = 180.0


def _waiting(worker: Worker) -> set[str]:
    """Subscriptions for which the worker makes no first attempts, by its metrics."""
    _, body = get(worker.admin_port, "/metrics")
    return set(re.findall(r'^penstock_waiting_for_kafka\{subscription="([^"]+)"\} 1', body.decode(), re.MULTILINE))


@pytest.mark.parametrize("is_broker", [False, True], ids=["channel", "broker"])
def test_frozen_kafka_is_shown_and_repeats_nothing(proxied: KafkaCluster, tmp_path: Path, is_broker: bool) -> None:
    """The worker loses all partitions when its session ends, has them again, and goes on where it was."""
    with world(proxied, tmp_path, subscriber=HALF.slow, is_broker=is_broker) as whole:
        with load(whole, HALF) as sending:
            whole.wait_flow()
            with whole.fault("kafka"):
                began_s = time.monotonic()
                proxied.brokers[0].pause()
                wait_until("both subscriptions wait for Kafka", lambda: len(_waiting(whole.first)) == 2, LIMIT_S)
                time.sleep(max(0.0, began_s + FROZEN_S - time.monotonic()))
                proxied.brokers[0].resume()
            wait_until("they wait no more", lambda: not _waiting(whole.first), LIMIT_S)
            whole.wait_flow()
            sending.process.terminate()
            sending.result(180)
        settle(whole)
        verdict = judged(whole)
    print(verdict)
    assert verdict.violations == (), str(verdict)
    assert verdict.report.duplicates == 0, str(verdict)
    assert verdict.report.events > 0
