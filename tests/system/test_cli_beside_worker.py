"""`penstock lag`, `status`, `tail` and `dlq` beside a real worker: what it left in Kafka is what they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support import processes
from tests.support.installation import Installation
from tests.support.processes import REPOSITORY, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = pytest.mark.system

LIMIT_S = 180.0
EVENTS = 12
SENT = EVENTS + 6  #: with those of the second half
#: After its first failure the event waits for long enough that others are sent and answered.
PATIENT = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT10S"}


def run(installation: Installation, *arguments: str) -> list[str]:
    """The lines that a command of this Python prints."""
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(REPOSITORY),
        "PENSTOCK_KAFKA": installation.bootstrap,
        "PENSTOCK_INSTANCE": installation.name,
        **installation.env,
    }
    done = processes.run([sys.executable, "-m", *arguments], env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def penstock(installation: Installation, *arguments: str) -> Any:
    """The lines of a command's JSON."""
    return [json.loads(line) for line in run(installation, "app.cli", *arguments, "-o", "json")]


def test_lag_and_dead_letters_of_a_worker(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """One key holds the watermark: the lag is one event all the same. What was refused is redriven when mended."""
    installation = Installation(kafka.bootstrap, tmp_path)
    with ScriptedSubscriber() as subscriber:
        stuck = subscriber.script("/stuck", says(503), *[says(200)] * 5, says(503))
        refusing = subscriber.script("/picky", says(400, b"not this one"))
        good = Wanted("good", subscriber.script("/good", says(200)))
        installation.write([good, Wanted("picky", refusing, "unordered")])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 2)
            agents = run(installation, "faust", "-A", "app", "agents")
            assert [line.split()[0].rpartition(".")[0] for line in agents[1:-1]] == [
                f"{NAMESPACE}.good",
                f"{NAMESPACE}.picky",
            ]
            assert {line.split()[1] for line in agents[1:-1]} == {installation.resources.topic}
            assert agents[-1].split()[:2] == ["traffic", f"{installation.name}.traffic"]
            target = f"/channels/{NAMESPACE}/{installation.resources.channel}"
            for number in range(EVENTS):
                assert post(worker.port, target, f"e{number}").status == 202
            installation.wait_settled(["good", "picky"], LIMIT_S)
            assert {row["events"] for row in penstock(installation, "lag")[0]} == {0}
            events = penstock(installation, "tail", f"{NAMESPACE}/{installation.resources.channel}", "--no-follow")
            assert [event["attributes"]["id"] for event in events] == [f"e{number}" for number in range(2, EVENTS)]

            installation.write([Wanted("stuck", stuck, "key-ordered", PATIENT)])
            installation.wait_subscribers(worker, 3)
            assert post(worker.port, target, "held", headers=[("ce-partitionkey", "k")]).status == 202
            wait_until("it is being retried", lambda: len(subscriber.requests("/stuck")) == 1, LIMIT_S)
            for number in range(5):
                headers = [("ce-partitionkey", f"other-{number}")]
                assert post(worker.port, target, f"free{number}", headers=headers).status == 202

            def held() -> dict[str, Any]:
                row: dict[str, Any]
                (row,) = penstock(installation, "lag", "--subscription", f"{NAMESPACE}/stuck")[0]
                return row

            wait_until("the others are settled above it", lambda: held()["settled_above"] == 5, LIMIT_S)
            row = held()
            assert (row["events"], row["end"] - row["committed"]) == (1, 6)
            assert row["seconds"] > 0
            assert row["attempts"] > 0
            subscriber.script("/stuck", says(200))
            installation.wait_settled(["stuck", "picky", "good"], LIMIT_S)

            (groups,) = penstock(installation, "dlq", "list")
            assert [(row["subscription"], row["count"]) for row in groups] == [(f"{NAMESPACE}/picky", SENT)]
            letter = penstock(installation, "dlq", "show", "--last", "1")[0]
            assert (letter["attributes"]["id"][:4], letter["answer"]) == ("free", "not this one")
            subscriber.script("/picky", says(200))
            before = len(subscriber.requests("/good"))
            (summary,) = penstock(installation, "dlq", "redrive", "--yes", "--subscription", f"{NAMESPACE}/picky")
            assert (summary["redriven"], summary["failed"]) == (SENT, 0)
            assert len({request.attributes["id"] for request in subscriber.requests("/picky")}) == SENT
            assert len(subscriber.requests("/good")) == before
            (status,) = penstock(installation, "status")
            assert {row["ready"] for row in status["subscriptions"]} == {"True"}
            assert worker.terminate() == 0, worker.tail()
