"""`penstock job traffic --once` over what a real worker did: the numbers of the sender's and the subscriber's books."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.processes import REPOSITORY
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
SPARK_LIMIT_S = 300.0
EVENTS = 50
NAMES = ("good", "flaky", "bad")


def test_job_counts_what_was_sent_and_delivered(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """One subscriber accepts all, one rejects some attempts, one rejects for good: the worker counts, not the test."""
    installation = Installation(kafka.bootstrap, tmp_path, 2)
    retry = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT0.02S"}
    with ScriptedSubscriber() as subscriber:
        answers = {
            "good": [says(200)],
            "flaky": [says(503), says(200), says(503), says(503), says(200)],
            "bad": [says(400)],
        }
        urls = {name: subscriber.script(f"/{name}", *answers[name]) for name in NAMES}
        installation.write([Wanted(name, urls[name], delivery=retry) for name in NAMES])
        sent = Counter[str]()
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(NAMES))
            for number in range(EVENTS):
                body = b"x" * number
                target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
                assert post(worker.port, target, f"e{number}", body).status == 202
                sent.update(events=1, bytes=len(body))
            installation.wait_settled(NAMES, LIMIT_S)
            assert worker.terminate() == 0, worker.tail()  # which sends its last counts
        attempts = {name: len(subscriber.requests(f"/{name}")) for name in NAMES}

    here = tmp_path / "here"
    here.mkdir()
    (here / ".penstock").symlink_to(REPOSITORY / ".penstock")  # Spark's jars
    left_over = {"SPARK_HOME": "/nonexistent", "PYSPARK_SUBMIT_ARGS": "--master spark://nowhere:7077 pyspark-shell"}
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "job", "traffic", "--once", "-o", "json", "--kafka", kafka.bootstrap,
         "--folder", "tables", "--master", "local[2]"],
        capture_output=True, text=True, check=False, timeout=SPARK_LIMIT_S, cwd=here,
        env={**os.environ, **left_over, "PENSTOCK_INSTANCE": installation.name},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Penstock ignores SPARK_HOME, PYSPARK_SUBMIT_ARGS in the environment" in done.stderr
    assert {path.name for path in here.iterdir()} == {".penstock", "tables"}, "no artifacts and no lock stay behind"
    summary = json.loads(done.stdout)
    counts = ("events", "bytes", "delivered", "retried", "dead_lettered", "filtered")
    rows = {(row["kind"], row["subscription"]): tuple(row[name] for name in counts) for row in summary["rows"]}
    events, size = sent["events"], sent["bytes"]
    assert rows == {
        ("stored", ""): (events, size, 0, 0, 0, 0),
        ("accepted", ""): (events, size, 0, 0, 0, 0),
        ("settled", "good"): (events, size, events, attempts["good"] - events, 0, 0),
        ("settled", "flaky"): (events, size, events, attempts["flaky"] - events, 0, 0),
        ("settled", "bad"): (events, size, 0, attempts["bad"] - events, events, 0),
    }
    assert (attempts["good"], attempts["flaky"], attempts["bad"]) == (events, events + 3, events)
    assert summary["counters"].get("deltas.unreadable", 0) == summary["counters"].get("deltas.repeats", 0) == 0
