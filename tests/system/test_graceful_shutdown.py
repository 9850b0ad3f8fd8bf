"""SIGTERM: requests in flight are finished and not repeated, and a Kafka that hangs does not delay a worker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import REPOSITORY, LoadProcess, SinkProcess, Worker, free_port, get, paused, wait_until
from tests.support.resources import Wanted
from tests.support.scripted_server import slowly
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

LIMIT_S = 180.0
EVENTS = 400
ANSWER_S = 0.15  #: many are under way at any time
EVENT = ("ce-specversion: 1.0", "ce-id: answer", "ce-source: /answer", "ce-type: t")


def test_nothing_is_repeated_after_a_clean_stop(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Deliveries, replies, dead letters at a sink and in the topic: a second worker goes on where the first ended."""
    installation = Installation(kafka.bootstrap, tmp_path, partitions=4)
    with ScriptedSubscriber() as subscriber:
        delivered = subscriber.script("/delivered", slowly(says(202), ANSWER_S))
        replying = subscriber.script("/replying", slowly(says(200, b"x", *EVENT), ANSWER_S))
        replies = subscriber.script("/replies", slowly(says(202), ANSWER_S))
        dying = subscriber.script("/dying", slowly(says(400), ANSWER_S))
        sunk = subscriber.script("/sunk", slowly(says(400), ANSWER_S))
        sink = subscriber.script("/sink", slowly(says(202), ANSWER_S))
        at_most = {"penstock.dev/concurrency": "10"}
        to_sink: dict[str, Any] = {"retry": 0, "deadLetterSink": {"uri": sink}}
        specs = [
            Wanted("delivered", delivered, "key-ordered", annotations=at_most),
            Wanted("replying", replying, "unordered", reply=replies, annotations=at_most),
            Wanted("dying", dying, "unordered", delivery={"retry": 0}, annotations=at_most),
            Wanted("sunk", sunk, "unordered", delivery=to_sink, annotations=at_most),
        ]
        installation.write(specs)
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(specs))
            with LoadProcess(tmp_path, installation.url(worker), events=EVENTS, rate=2_000, keys=50) as load:
                assert load.result(LIMIT_S)["statuses"] == {"202": EVENTS}
            wait_until("all are at work", lambda: all(subscriber.requests(f"/{w.name}") for w in specs), LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        before = {path: len(subscriber.requests(path)) for path in ("/delivered", "/replying", "/dying", "/sunk")}
        assert max(before.values()) < EVENTS, "the stop came too late to show anything"
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_settled([subscription.name for subscription in specs], LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        for path in ("/delivered", "/replying", "/replies", "/dying", "/sunk", "/sink"):
            requests = subscriber.requests(path)
            if path != "/replies":
                assert max(Counter(request.attributes["id"] for request in requests).values()) == 1, path
            assert len(requests) == EVENTS, path
    letters = list(reader.records(kafka.bootstrap, installation.resources.dlq_topic))
    assert len(letters) == EVENTS


def test_kafka_that_hangs_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    """Connected, and silent: no commit is answered, no group can be left."""
    jars = REPOSITORY / ".penstock" / "kafka"
    with EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap="384m", jars_root=jars) as broker:
        installation = Installation(broker.bootstrap, tmp_path, partitions=2, env={"PENSTOCK_DRAIN_S": "3"})
        with SinkProcess(tmp_path, {}) as sink:
            names = [f"s{number}" for number in range(8)]  # more than the event loop's pool has threads
            installation.write([Wanted(name, sink.url(name)) for name in names])
            with installation.worker() as worker:
                worker.wait_ready()
                installation.wait_subscribers(worker, len(names))
                with LoadProcess(tmp_path, installation.url(worker), events=0, rate=100, keys=10):
                    wait_until("events flow", lambda: sum(s["distinct"] for s in sink.stats().values()) > 100, LIMIT_S)
                    with paused(broker.pid):
                        assert worker.terminate(limit_s=30.0) == 0, worker.tail()


def test_stop_while_kafka_is_away_logs_no_traceback(tmp_path: Path) -> None:
    """The fetches of the second Faust app fail all the time then, and are cancelled at the stop."""
    jars = REPOSITORY / ".penstock" / "kafka"
    with EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap="384m", jars_root=jars) as broker:
        env = {"PENSTOCK_DRAIN_S": "3", "PENSTOCK_LOG_FORMAT": "json"}
        installation = Installation(broker.bootstrap, tmp_path, partitions=2, env=env)
        with SinkProcess(tmp_path, {}) as sink:
            installation.write([Wanted("s", sink.url("s"))])
            with installation.worker() as worker:
                worker.wait_ready()
                installation.wait_subscribers(worker, 1)
                with LoadProcess(tmp_path, installation.url(worker), events=0, rate=20, keys=10):
                    wait_until("the second app has counted", lambda: b'"accepted"' in _traffic(worker), LIMIT_S)
                broker.kill()
                wait_until(
                    "the outage is noticed", lambda: "Kafka cannot be reached" in worker.log.read_text(), LIMIT_S
                )
                assert worker.terminate(limit_s=60.0) == 0, worker.tail()
                lines = worker.log.read_text().splitlines()
    stray = [line for line in lines if not line.startswith('{"timestamp"') or "Traceback" in line]
    assert stray == []
    assert not any('"mode.redirect"' in line for line in lines)


def _traffic(worker: Worker) -> bytes:
    return get(worker.port, "/traffic")[1]
