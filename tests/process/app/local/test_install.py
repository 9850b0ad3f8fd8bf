"""The installer as make runs it: alone, with the standard library."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes import wait_until

_REPOSITORY = Path(__file__).parents[4]
_LIMIT_S = 300.0


def _command(folder: Path, lock: Path) -> list[str]:
    return [sys.executable, "-E", "-s", "-m", "app.local.install", str(folder), str(lock)]


def test_failure_ends_with_the_output_of_pip(tmp_path: Path) -> None:
    command = _command(tmp_path / "venv", tmp_path / "none.lock")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=_REPOSITORY)
    assert done.returncode == 1
    assert "none.lock" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stage", ["environment", "download"])
def test_ctrl_c_is_one_sentence(stage: str, tmp_path: Path) -> None:
    folder, lock = tmp_path / "venv", tmp_path / "some.lock"
    with ExitStack() as connections, socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        lock.write_text(f"--index-url {index}\nnothing==1 --hash=sha256:{'0' * 64}\n")
        process = subprocess.Popen(
            _command(folder, lock),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=_REPOSITORY,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        if stage == "environment":
            wait_until("the environment is being made", (folder / "pyvenv.cfg").exists, _LIMIT_S)
        else:
            assert process.stdout.readline().startswith("Downloading Python packages into")
            connections.enter_context(silent.accept()[0])  # pip waits for the index now
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everything that runs in it
        errors = process.communicate(timeout=_LIMIT_S)[1]
    assert process.returncode == 130
    assert (
        errors.strip() == "Interrupted. Run the same command again to continue; downloads that are complete are kept."
    )


@pytest.mark.parametrize(
    ("up", "kafka", "java"),
    [
        ("", "", True),
        ("--any-port --kafka-port 9093", "", True),
        ("--kafka kafka-1:9092", "", False),
        ("--any-port --kafka=kafka-1:9092", "", False),
        ("", "kafka-1:9092", False),
    ],
)
def test_make_up_asks_for_java_only_to_start_a_kafka(up: str, kafka: str, java: bool) -> None:
    command = ["make", "--dry-run", "--what-if", "requirements.lock", "up", f"UP={up}"]
    env = {**os.environ, "PENSTOCK_KAFKA": kafka}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60, cwd=_REPOSITORY)
    (line,) = (line for line in done.stdout.splitlines() if "app.local.install" in line)
    assert ("--java" in line.split()) is java
