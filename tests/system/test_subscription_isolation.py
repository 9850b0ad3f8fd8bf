"""Sick subscribers beside healthy ones in one worker: the healthy ones get everything once, the sick ones wait, and the
log stays short."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from benchmarks.isolation import Sick
from benchmarks.sick import KINDS
from tests.support.installation import Installation
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.system.test_worker_metrics import metrics

pytestmark = pytest.mark.system

LIMIT_S = 300.0
EVENTS = 300
EVERY_S = 10.0  #: a subscription may write so often of one kind
HEALTHY = {"ordered": "ordered", "keyed": "key-ordered", "unordered": "unordered"}
#: Without end for as long as the test runs, and as fast as a policy can ask for it.
EAGER = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT0.01S", "timeout": "PT1S"}


def _lines(worker: Worker) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker.log.read_text().splitlines() if line.startswith("{")]


def _attempts_that_failed(worker: Worker) -> float:
    rows = [line for line in metrics(worker).splitlines() if line.startswith("penstock_attempts_total{")]
    return sum(float(row.rpartition(" ")[2]) for row in rows if 'code="2' not in row)


def _throttled(worker: Worker) -> set[str]:
    """The subscriptions that wait at this moment."""
    rows = [line for line in metrics(worker).splitlines() if line.startswith("penstock_throttled{")]
    return {row.split('"')[1].removeprefix(f"{NAMESPACE}/") for row in rows if float(row.rpartition(" ")[2])}


def test_healthy_subscriptions_go_on_and_the_log_stays_short(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path, partitions=2)
    with Sick(tmp_path) as sick, SinkProcess(tmp_path, dict.fromkeys(HEALTHY, "")) as sink:
        healthy = [Wanted(name, sink.url(name), order) for name, order in HEALTHY.items()]
        installation.write([*healthy, *(Wanted(kind, sick.url(kind), "unordered", EAGER) for kind in KINDS)])
        began_s = time.monotonic()
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(HEALTHY) + len(KINDS))
            with LoadProcess(tmp_path, installation.url(worker), events=EVENTS, rate=50, keys=20) as load:
                throttled: set[str] = set()

                def some_wait() -> bool:
                    throttled.update(_throttled(worker))
                    return bool(throttled)

                wait_until("sick ones wait", some_wait, LIMIT_S)
                assert load.result(LIMIT_S)["statuses"] == {"202": EVENTS}
            installation.wait_settled(HEALTHY, LIMIT_S)
            throttled |= _throttled(worker)
            log, took_s, attempts = _lines(worker), time.monotonic() - began_s, _attempts_that_failed(worker)
            worker.kill()
        stats = sink.stats()
    counts = {name: (stats[name]["delivered"], stats[name]["duplicates"]) for name in HEALTHY}
    assert counts == dict.fromkeys(HEALTHY, (EVENTS, 0))
    assert throttled <= set(KINDS)
    failed = [line for line in log if line["event"] == "attempt failed"]
    lines = Counter(line["subscription"] for line in failed)
    assert set(lines) == {f"{NAMESPACE}/{kind}" for kind in KINDS}, "each says at once that it fails"
    assert max(lines.values()) <= 2 + took_s / EVERY_S
    assert attempts > 10 * len(failed), "there was much to say"
