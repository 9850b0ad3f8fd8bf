"""Prepared processes do what those do that Python starts from scratch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.prepared import Prepared, prepared
from tests.support.proc import open_files
from tests.support.processes import REPOSITORY, Child, SinkProcess, run

ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PENSTOCK_KAFKA": "nowhere:1"}


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["config", "show", "-o", "json"], {}),
        (["config", "show"], {"PENSTOCK_DRAIN_S": "7"}),
        (["config", "show"], {"PENSTOCK_DRAIN_S": "x"}),
        (["lag", "--help"], {"COLUMNS": "60"}),
        (["no-such-command"], {}),
        (["lag", "-o", "json"], {"PENSTOCK_KAFKA": "127.0.0.1:1", "PENSTOCK_PRODUCE_TIMEOUT_S": "1"}),
    ],
)
def test_command_says_the_same(arguments: list[str], more: dict[str, str]) -> None:
    command = [sys.executable, "-m", "app.cli", *arguments]
    outcomes = []
    for allowed in (True, False):
        with prepared(allowed):
            done = run(command, {**ENV, **more})
            outcomes.append((done.returncode, done.stdout, done.stderr))
    assert outcomes[0] == outcomes[1]
    assert any(outcomes[0][1:])


def test_prepared_process_is_a_process_of_its_own(tmp_path: Path) -> None:
    with prepared(True), SinkProcess(tmp_path / "one") as first, SinkProcess(tmp_path / "two") as second:
        assert isinstance(first.process, Prepared)
        assert isinstance(second.process, Prepared)
        here = [Path(f"/proc/{each.process.pid}") for each in (first, second)]
        assert [(each / "cwd").resolve() for each in here] == [tmp_path / "one", tmp_path / "two"]
        assert first.running
        with pytest.raises(subprocess.TimeoutExpired):
            first.process.wait(0.01)
        first.kill()
        assert (first.running, first.process.returncode) == (False, -signal.SIGKILL)
        assert second.running
        opened = open_files(second.process.pid).values()
        assert opened
        assert not any("one" in file for file in opened), opened
        assert second.terminate() == 0


_STARTS_AND_DIES = """
import os, pathlib, sys
from tests.support.prepared import prepared
from tests.support.processes import SinkProcess
with prepared(True):
    sink = SinkProcess(pathlib.Path(sys.argv[1]))
print(sink.process.pid, flush=True)
os._exit(0)
"""


def test_prepared_process_dies_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STARTS_AND_DIES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180, cwd=REPOSITORY)
    end = time.monotonic() + 60
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_other_modules_and_measurements_start_from_scratch(tmp_path: Path) -> None:
    with prepared(True), Child("other", [sys.executable, "-m", "json.tool", "--help"], tmp_path) as other:
        assert isinstance(other.process, subprocess.Popen)
        assert other.wait(60) == 0
    with prepared(False), SinkProcess(tmp_path) as sink:
        assert isinstance(sink.process, subprocess.Popen)
