"""The supervisor of several processes, without Kafka: its workers wait for one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.local.kafka.ports import LOOPBACK
from tests.support import processes
from tests.support.processes import REPOSITORY, clean_environment, free_port, wait_until

LIMIT_S = 180.0
#: As a program starts that was told to ignore its children.
_IGNORING = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
#: As a supervisor executes itself again: a worker has ended, and SIGCHLD waits.
_EXECUTED_AGAIN = """
import os, signal, sys
from app.settings.environment import set_children
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
pid = os.fork() or os._exit(1)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
set_children({1: pid}, sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
"""
_WORKER = [sys.executable, "-m", "app", "worker"]


def _environment(folder: Path, **settings: object) -> dict[str, str]:
    folder.mkdir(parents=True)
    given = {"KAFKA": f"{LOOPBACK}:1", "HTTP_PORT": free_port(), "ADMIN_PORT": 0, "PROCESSES": 2, **settings}
    own = {f"PENSTOCK_{name}": str(value) for name, value in given.items()}
    return clean_environment() | own | {"TMPDIR": str(folder), "PENSTOCK_LOG_FORMAT": "json"}


def _lines(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [line for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in map(json.loads, lines) if line["event"] == event]


def test_whatever_ends_a_worker_is_noticed_and_a_stop_leaves_nothing(tmp_path: Path) -> None:
    """It was started with SIGCHLD ignored, a real-time signal has no name, and SIGUSR1 comes before any handler."""
    folder, log = tmp_path / "t", tmp_path / "log"
    command = [sys.executable, "-c", _IGNORING, *_WORKER]
    env = _environment(folder, KAFKA_WAIT_S=600)
    with log.open("wb") as out, subprocess.Popen(command, env=env, cwd=REPOSITORY, stderr=out, stdout=out) as process:
        try:

            def pids() -> list[int]:
                return [line["pid"] for line in _lines(log, "a worker process was started")]

            wait_until("both are forked", lambda: len(pids()) == 2, LIMIT_S)
            process.send_signal(signal.SIGUSR1)
            wait_until("both say what they do", lambda: log.read_text().count("MainThread") >= 2, LIMIT_S)
            os.kill(pids()[1], 40)
            wait_until("another one is forked", lambda: len(pids()) == 3, LIMIT_S)
            (ended,) = _lines(log, "a worker process has ended")
            assert (ended["process"], ended["pid"], ended["signal"]) == (2, pids()[1], 40)
            assert [path.name.startswith("penstock-") for path in folder.iterdir()] == [True]
            process.terminate()
            assert process.wait(LIMIT_S) == 0, log.read_text()
        finally:
            process.kill()
    assert not list(folder.iterdir())
    assert "Traceback" not in log.read_text()
    assert "ƒaµS†" not in log.read_text(), "Faust's banner would be between the lines of JSON"


def test_worker_that_ends_while_the_supervisor_executes_itself_is_noticed(tmp_path: Path) -> None:
    """Its signal waits for the next program, which starts another in its place."""
    folder, log = tmp_path / "t", tmp_path / "log"
    env = _environment(folder, KAFKA_WAIT_S=600)
    private = folder / "penstock-own"
    private.mkdir()
    command = [sys.executable, "-c", _EXECUTED_AGAIN, str(private), *_WORKER]
    with log.open("wb") as out, subprocess.Popen(command, env=env, cwd=REPOSITORY, stderr=out, stdout=out) as process:
        try:
            wait_until("both are forked", lambda: len(_lines(log, "a worker process was started")) == 2, LIMIT_S)
            (ended,) = _lines(log, "a worker process has ended")
            assert (ended["process"], ended["exit_code"]) == (2, 1)
            process.terminate()
            assert process.wait(LIMIT_S) == 0, log.read_text()
        finally:
            process.kill()


def test_folder_whose_name_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    done = processes.run(_WORKER, _environment(folder))
    assert done.returncode == 2
    assert "Set TMPDIR to a folder with a shorter path." in done.stderr
    assert "a worker process was started" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.iterdir())


def test_supervisor_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    code = (
        "from app.processes import supervisor\n"
        "from app.settings import load_settings\n"
        "supervisor._PRODUCT = ('no_such_module_of_ours',)\n"
        "supervisor.supervise(load_settings())\n"
    )
    done = processes.run([sys.executable, "-c", code], _environment(folder))
    assert done.returncode == 1
    assert "No module named 'no_such_module_of_ours'" in done.stderr
    assert not list(folder.iterdir())


def test_wrong_setting_ends_all_without_a_word_about_another_start(tmp_path: Path) -> None:
    done = processes.run(_WORKER, _environment(tmp_path / "t", TOKENS=f"file:{tmp_path / 'none'}"))
    assert done.returncode == 2
    ends = [json.loads(line) for line in done.stderr.splitlines() if "a worker process has ended" in line]
    assert ends
    assert all(end["exit_code"] == 2 and "again_in_s" not in end for end in ends)
