"""A worker as a process, seen by its senders: how many may be connected, and what is known but served elsewhere."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.ledger.facts import Sent, read
from tests.support.processes import LoadProcess, Worker, paused, wait_until
from tests.support.resources import NAMESPACE
from tests.system.sending import post

pytestmark = pytest.mark.system

USUAL_FILES = 1024
LIMIT_S = 180.0


@contextlib.contextmanager
def usual_limit() -> Iterator[None]:
    """What is started meanwhile may open as many files as a login usually may, until it raises that itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_FILES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def target_of(installation: Installation) -> str:
    """The path of the channel."""
    return f"/channels/{NAMESPACE}/{installation.resources.channel}"


def _takes(worker: Worker, target: str, event_id: str) -> bool:
    return post(worker.port, target, event_id).status == 202


def _knows(worker: Worker, target: str) -> bool:
    return post(worker.port, target, "e").status == 503


def test_idle_sockets_under_the_usual_limit_of_open_files(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path)
    installation.write([])
    with usual_limit():
        worker = installation.worker()
    with worker, contextlib.ExitStack() as stack:
        worker.wait_ready()
        target = target_of(installation)
        wait_until("the channel is served", partial(_takes, worker, target, "first"), LIMIT_S)
        for _ in range(USUAL_FILES + 200):
            stack.enter_context(socket.create_connection(("127.0.0.1", worker.port), LIMIT_S))
        for number in range(20):
            assert post(worker.port, target, f"e{number}").status == 202
        assert b"files and sockets" not in worker.tail().encode()


def test_process_that_takes_no_events_in_says_where_they_go(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    installation = Installation(kafka.bootstrap, tmp_path)
    installation.write([])
    target = target_of(installation)
    with (
        installation.worker("controller") as controller,
        installation.worker("dispatcher", controller=False) as dispatcher,
    ):
        for worker in (controller, dispatcher):
            worker.wait_ready()
            wait_until("it knows the channel", partial(_knows, worker, target), LIMIT_S)
            answer = post(worker.port, target, "e")
            assert answer.headers["retry-after"] == "1"
            assert b"PENSTOCK_ROLE" in answer.body
            assert post(worker.port, target + "-other", "e").status == 404


def test_kill_between_kafkas_acknowledgement_and_the_202(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Stopped, it hears nothing of what Kafka stores of the requests under way; then it is killed. Kafka stands still
    before that, so that there are such requests."""
    installation = Installation(own_kafka.bootstrap, tmp_path, partitions=3)
    installation.write([])
    target, topic = target_of(installation), installation.resources.topic
    ledger = tmp_path / "sent"
    with installation.worker("controller") as controller:
        controller.wait_ready()
        for seed in range(1, 6):
            with installation.worker("ingress", controller=False) as worker:
                worker.wait_ready()
                wait_until("the channel is served", partial(_takes, worker, target, f"first-{seed}"), LIMIT_S)
                url = installation.url(worker)
                with LoadProcess(tmp_path, url, events=0, connections=64, keys=100, seed=seed, ledger=ledger) as load:
                    before = sum(reader.ends(own_kafka.bootstrap, topic).values())
                    wait_until(
                        "events flow",
                        lambda: sum(reader.ends(own_kafka.bootstrap, topic).values()) > before + 500,  # noqa: B023
                        LIMIT_S,
                    )
                    with paused(own_kafka.pid):
                        time.sleep(0.5)  # for the worker to send it what all connections wait for
                        worker.pause()
                    time.sleep(1.0)  # for Kafka to store what it was sent
                    worker.kill()
                    load.process.terminate()
                    load.result(LIMIT_S)
            accepted = {fact.id for fact in read(ledger) if isinstance(fact, Sent) and fact.status == 202}
            stored = {fact.id for fact in reader.stored(own_kafka.bootstrap, topic) if not fact.id.startswith("first-")}
            assert accepted
            assert accepted <= stored, "what was answered 202 is there"
            if stored - accepted:
                break
        else:
            pytest.fail("no kill came between the two")
