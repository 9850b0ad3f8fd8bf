"""SIGHUP: the worker executes itself again under load. No connection is refused, and nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.processes import Worker, wait_until
from tests.support.resources import Wanted
from tests.support.scripted_server import OK
from tests.support.subscriber import ScriptedSubscriber
from tests.system.restarting import LIMIT_S, load_meanwhile, starts
from tests.system.sending import post

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("started_from_scratch")]  # the command line is executed again

PARTITIONS = 4


def test_sighup_under_load_refuses_no_connection(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Twice: what the next run inherits, it can pass on."""

    def hang_up(worker: Worker) -> None:
        for number in (2, 3):
            os.kill(worker.process.pid, signal.SIGHUP)
            wait_until("it has started again", lambda: starts(worker) == number, LIMIT_S)  # noqa: B023
            worker.wait_ready()

    load_meanwhile(Installation(kafka.bootstrap, tmp_path, PARTITIONS), hang_up)


def test_sighup_of_workers_of_all_roles_repeats_nothing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """An ingress and a dispatcher beside a worker of all roles, all at once."""
    installation = Installation(kafka.bootstrap, tmp_path, PARTITIONS)
    with ExitStack() as stack:
        others = [
            stack.enter_context(installation.worker(role, controller=False)).wait_ready()
            for role in ("ingress", "dispatcher")
        ]

        def hang_up_all(worker: Worker) -> None:
            for each in (worker, *others):
                os.kill(each.process.pid, signal.SIGHUP)
            for each in (worker, *others):
                wait_until("it has started again", lambda: starts(each) == 2, LIMIT_S)  # noqa: B023
                each.wait_ready()

        load_meanwhile(installation, hang_up_all)
        for other in others:
            assert other.terminate() == 0, other.tail()


@contextmanager
def draining_at(
    kafka: EmbeddedKafka, folder: Path, number: int
) -> Iterator[tuple[Installation, Worker, threading.Event]]:
    """A worker that drains since this signal, because a delivery is under way until the event is set."""
    installation, answer = Installation(kafka.bootstrap, folder), threading.Event()

    async def held(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.to_thread(answer.wait, LIMIT_S)
        writer.write(OK)
        return True

    with ScriptedSubscriber() as subscriber:
        installation.write([Wanted("held", subscriber.script("/held", held))])
        with installation.worker(env={"PENSTOCK_DRAIN_S": str(LIMIT_S)}) as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1)
            assert post(worker.port, installation.resources.path, "first", b"x").status == 202
            wait_until("it is under way", lambda: len(subscriber.requests("/held")) == 1, LIMIT_S)
            os.kill(worker.process.pid, number)
            wait_until("it drains", lambda: "draining" in worker.log.read_text(), LIMIT_S)
            yield installation, worker, answer


def test_sigterm_while_a_restart_drains_is_a_stop(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The ingress takes events until the deliveries in flight are done, and refuses connections after SIGTERM."""
    with draining_at(kafka, tmp_path, signal.SIGHUP) as (installation, worker, answer):
        assert post(worker.port, installation.resources.path, "second", b"x").status == 202
        worker.process.send_signal(signal.SIGTERM)

        def refused() -> bool:
            try:
                socket.create_connection(("127.0.0.1", worker.port), LIMIT_S).close()
            except ConnectionRefusedError:
                return True
            return False

        answer.set()
        wait_until("connections are refused", refused, LIMIT_S)
        assert worker.wait(LIMIT_S) == 0, worker.tail()
        assert starts(worker) == 1


def test_sighup_while_a_stop_drains_does_not_restart(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """So it is with a file that changes by then: what was delivered is committed, and the process ends."""
    with draining_at(kafka, tmp_path, signal.SIGTERM) as (installation, worker, answer):
        os.kill(worker.process.pid, signal.SIGHUP)
        wait_until("it has tried it", lambda: "the worker starts again" in worker.log.read_text(), LIMIT_S)
        answer.set()
        assert worker.wait(LIMIT_S) == 0, worker.tail()
        assert starts(worker) == 1
        assert installation.position("held") == {0: 1}
