"""What operators see of a real worker: its metrics page, and how its subscriptions do while one of them fails."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.exposition_rules import problems
from tests.support.installation import Installation
from tests.support.processes import Worker, get, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post
from tests.unit.app.observability.test_exposition import EXEMPT, LABELS

pytestmark = pytest.mark.system

LIMIT_S = 180.0
EVENTS = 6


def wide(worker: Worker, installation: Installation) -> dict[str, dict[str, Any]]:
    """Rows of `?wide` by name."""
    status, body = get(worker.admin_port, f"/subscribers/{NAMESPACE}/{installation.resources.channel}?wide")
    assert status == 200
    return {row["name"]: row for row in json.loads(body)["subscribers"]}


def value(page: str, name: str, **labels: str) -> float:
    """One sample of a metrics page; 0 when it is not there."""
    for line in page.splitlines():
        sample = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
        if sample and dict(re.findall(r'(\w+)="([^"]*)"', sample[1] or "")) == labels:
            return float(sample[2])
    return 0.0


def metrics(worker: Worker) -> str:
    """The page."""
    status, body = get(worker.admin_port, "/metrics")
    assert status == 200
    return body.decode()


def reported(worker: Worker) -> str:
    """Everything that it wrote."""
    return worker.output() + worker.log.read_text(errors="replace")


def test_failing_subscription_is_seen_by_every_worker(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Two workers; both show an error that one of them had, and it disappears when the subscriber is fixed."""
    installation = Installation(kafka.bootstrap, tmp_path, env={"PENSTOCK_STATUS_INTERVAL_S": "0.2"})
    retry = {"retry": 50, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
    with ScriptedSubscriber() as subscriber:
        bad = subscriber.script("/bad", says(503, b"busy, come back"))
        good = subscriber.script("/good", says(200))
        installation.write([Wanted("bad", bad, delivery=retry), Wanted("good", good)])
        with installation.worker() as worker, installation.worker("ingress", controller=False) as other:
            worker.wait_ready()
            other.wait_ready()
            installation.wait_subscribers(worker, 2)
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            for number in range(EVENTS):
                assert post(other.port, target, f"e{number}", b"{}").status == 202
            rows: dict[str, dict[str, Any]] = {}

            def seen() -> bool:
                rows.update(wide(other, installation))
                bad_row, good_row = rows["bad"], rows["good"]
                return bool(
                    bad_row["heads"]
                    and bad_row["heads"][0]["attempts"] >= 2
                    and bad_row["nextAttempt"]
                    and good_row["deliveriesPerSecond"] > 0
                    and good_row["lagEvents"] == 0
                    and bad_row["lagEvents"] == EVENTS
                )

            wait_until("the other worker tells how it is", seen, LIMIT_S)
            _check_rows(rows, installation)
            page = metrics(worker)
            _check_metrics(page)
            assert problems(metrics(other), EXEMPT, LABELS) == []
            assert value(metrics(other), "penstock_ingress_requests_total", code="202") == EVENTS

            subscriber.script("/bad", says(200))
            wait_until("the backlog is gone", lambda: wide(other, installation)["bad"]["lagEvents"] == 0, LIMIT_S)
            row = wide(other, installation)["bad"]
            assert (row["heads"], row["lagSeconds"], row["retrying"]) == ([], 0.0, 0)
            assert row["lastError"]["code"] == 503
            assert worker.terminate() == 0, worker.tail()
            assert other.terminate() == 0, other.tail()


def _check_rows(rows: dict[str, dict[str, Any]], installation: Installation) -> None:
    bad, good = rows["bad"], rows["good"]
    assert bad["group"] == installation.group("bad")
    assert [owner["partitions"] for owner in bad["owners"]] == [[0]]
    worker = bad["owners"][0]["worker"]
    assert [(head["partition"], head["offset"], head["id"], head["worker"]) for head in bad["heads"]] == [
        (0, 0, "e0", worker)
    ]
    assert bad["lagSeconds"] > 0
    error = bad["lastError"]
    assert (error["code"], error["answer"], error["offset"]) == (503, "busy, come back", 0)
    assert (good["lastError"], good["heads"], good["retrying"]) == (None, [], 0)


def _check_metrics(page: str) -> None:
    assert problems(page, EXEMPT, LABELS) == []
    bad, good = f"{NAMESPACE}/bad", f"{NAMESPACE}/good"
    assert value(page, "penstock_settled_total", subscription=good, verdict="delivered") == EVENTS
    assert value(page, "penstock_end_to_end_seconds_count", subscription=good) == EVENTS
    assert value(page, "penstock_delivery_seconds_count", subscription=good) == EVENTS
    assert value(page, "penstock_lag_events", subscription=good) == 0
    assert value(page, "penstock_lag_events", subscription=bad) == EVENTS
    assert value(page, "penstock_retrying_events", subscription=bad) == 1
    assert value(page, "penstock_attempts_total", subscription=bad, code="5xx") >= 2
    assert value(page, "penstock_oldest_event_timestamp_seconds", subscription=bad) > 1e9
    assert value(page, "penstock_buffered_bytes", subscription=bad) > 0
    assert value(page, "penstock_lanes", subscription=bad) == 1
    assert value(page, "penstock_owned_partitions", subscription=bad) == 1
    assert value(page, "penstock_commits_total", subscription=good, result="ok") >= 1
    assert value(page, "penstock_rebalances_total", subscription=good, kind="assigned") == 1
    assert value(page, "penstock_event_loop_lag_seconds_count") >= 1


def test_worker_dumps_stacks_and_tasks_on_request(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Pages behind their setting; signals always, and neither of them ends or stops the worker."""
    installation = Installation(kafka.bootstrap, tmp_path)
    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("good", subscriber.script("/good", says(200)))])
        with installation.worker(env={"PENSTOCK_DEBUG": "true"}) as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            status, tasks = get(worker.admin_port, "/debug/tasks")
            assert status == 200
            assert b"Lifecycle._publish_status at" in tasks
            status, stacks = get(worker.admin_port, "/debug/stacks")
            assert status == 200
            assert f"reader-{installation.resources.topic}".encode() in stacks
            status, profile = get(worker.admin_port, "/debug/profile?seconds=0.3")
            assert status == 200
            assert b"execute_from_commandline" in profile
            worker.process.send_signal(signal.SIGUSR1)
            wait_until("SIGUSR1 dumps stacks", lambda: "MainThread" in reported(worker), LIMIT_S)
            before = reported(worker).count("most recent call first")
            worker.process.send_signal(signal.SIGUSR2)
            wait_until("SIGUSR2 too", lambda: reported(worker).count("most recent call first") > before, LIMIT_S)
            assert get(worker.port, "/readyz")[0] == 200
            assert worker.terminate() == 0, worker.tail()
        with installation.worker() as worker:
            worker.wait_ready()
            assert get(worker.admin_port, "/debug/stacks")[0] == 404
            assert worker.terminate() == 0, worker.tail()
