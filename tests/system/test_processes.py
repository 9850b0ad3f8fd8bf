"""Several processes by one command: one is killed, all are replaced, and all stop, under load and with a ledger."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger.facts import Fault
from tests.support.processes import Worker, get, wait_until
from tests.support.resources import Wanted
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.restarting import LIMIT_S, SEED, load_meanwhile, starts
from tests.system.sending import post

pytestmark = pytest.mark.system

PARTITIONS, PROCESSES = 4, 2
OWN_KB_MAX = 35_000  #: of a process that is not the first, with one subscription: measured 26,000 to 30,000
ENV = {"PENSTOCK_PROCESSES": str(PROCESSES)}


def said(worker: Worker, event: str) -> list[dict[str, object]]:
    """The lines of the log that say this, without those that are still written."""
    lines = [line for line in worker.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in map(json.loads, lines) if line["event"] == event]


def pids(worker: Worker) -> list[int]:
    """The processes that it has forked, by the time of their start."""
    return [int(str(line["pid"])) for line in said(worker, "a worker process was started")]


def wait_serving(worker: Worker, count: int) -> None:
    """Until this many have started, and the admin port says that all are ready."""

    def are_ready() -> bool:
        status, page = get(worker.admin_port, "/readyz")
        return status == 200 and [row["status"] for row in json.loads(page)["processes"]] == ["ready"] * PROCESSES

    wait_until(f"{count} have started", lambda: starts(worker) >= count, LIMIT_S)
    wait_until("all are ready", are_ready, LIMIT_S)


def own_kb(number: int) -> int:
    """Memory that a process shares with no other."""
    lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def gone(numbers: Sequence[int]) -> bool:
    return not any(Path(f"/proc/{number}").exists() for number in numbers)


@pytest.mark.parametrize("killed", [0, 1], ids=["first", "second"])
def test_killed_process_comes_back_and_nothing_is_lost(kafka: EmbeddedKafka, tmp_path: Path, killed: int) -> None:
    """The first one has the controller and the admin port."""
    faults: list[Fault] = []
    workers: list[Worker] = []

    def kill(worker: Worker) -> None:
        workers.append(worker)
        wait_serving(worker, PROCESSES)
        from_s = time.time()
        os.kill(pids(worker)[killed], signal.SIGKILL)
        wait_serving(worker, PROCESSES + 1)
        faults.append(Fault("kill", from_s, time.time(), SEED))
        (ended,) = said(worker, "a worker process has ended")
        assert (ended["process"], ended["pid"]) == (killed + 1, pids(worker)[killed])
        assert ended["signal"] == "SIGKILL"

    load_meanwhile(Installation(kafka.bootstrap, tmp_path, PARTITIONS, env=ENV), kill, faults, cut="0")
    assert gone(pids(workers[0]))


def test_sighup_replaces_all_processes_and_refuses_no_connection(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Twice: what the next run of the supervisor inherits, it can pass on. Its process id stays."""

    def hang_up(worker: Worker) -> None:
        wait_serving(worker, PROCESSES)
        for number in (2, 3):
            os.kill(worker.process.pid, signal.SIGHUP)
            wait_serving(worker, number * PROCESSES)
            wait_until("the former ones are gone", lambda: gone(pids(worker)[:-PROCESSES]), LIMIT_S)
        assert len(pids(worker)) == 3 * PROCESSES

    load_meanwhile(Installation(kafka.bootstrap, tmp_path, PARTITIONS, env=ENV), hang_up)


def test_processes_are_workers_with_one_admin_port(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Metrics are sums, even when a process has ended; `penstock status` shows each worker; a stop leaves nothing."""
    with ScriptedSubscriber() as subscriber:
        installation = Installation(kafka.bootstrap, tmp_path, PARTITIONS, env=ENV)
        installation.write([Wanted("all", subscriber.script("/all", says(200)))])
        with installation.worker() as worker:
            wait_serving(worker, PROCESSES)
            installation.wait_subscribers(worker, 1)

            def answered() -> float:
                _, page = get(worker.admin_port, "/metrics")
                lines = [line for line in page.decode().splitlines() if 'requests_total{code="202"}' in line]
                return sum(float(line.rpartition(" ")[2]) for line in lines)

            for number in range(40):
                assert post(worker.port, installation.resources.path, f"e{number}", b"x").status == 202
            assert answered() == 40
            assert own_kb(pids(worker)[1]) < OWN_KB_MAX
            os.kill(pids(worker)[1], signal.SIGKILL)
            wait_serving(worker, PROCESSES + 1)
            assert answered() == 40

            def workers() -> int:
                status = installation.penstock("status", "-o", "json")
                return sum(f"-{pid}-" in status.stdout for pid in (pids(worker)[0], pids(worker)[2]))

            wait_until("status shows both workers", lambda: workers() == PROCESSES, LIMIT_S)
            wait_until("all is delivered", lambda: len(subscriber.requests("/all")) >= 40, LIMIT_S)
            os.kill(worker.process.pid, signal.SIGUSR2)
            dumps = "the stacks of both are in the log"
            wait_until(dumps, lambda: worker.log.read_text().count("Current thread 0x") == PROCESSES, LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
            assert gone(pids(worker))


def test_supervisor_that_is_killed_takes_its_processes_with_it(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """They drain and stop, so that nothing is delivered twice and their ports are free."""
    installation = Installation(kafka.bootstrap, tmp_path, env=ENV)
    installation.write([])
    with installation.worker() as worker:
        wait_serving(worker, PROCESSES)
        worker.kill()
        wait_until("its processes are gone", lambda: gone(pids(worker)), LIMIT_S)
        assert len(said(worker, "worker stopped")) == PROCESSES
