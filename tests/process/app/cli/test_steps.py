"""What a command that waits shows: a spinner with what it does now on a terminal, and lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_REPOSITORY = Path(__file__).parents[4]
_PROGRAM = """
import sys
from app.cli.output.steps import Steps
with Steps() as steps:
    steps.begin("redrive", "Waiting ...")
    steps.tell("redriven 3, failed 1 ...")
    print("failed: letter 7", file=sys.stderr)
    sys.stdin.readline()
print("the summary")
"""


def test_progress_on_a_terminal_is_a_spinner_that_goes() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _PROGRAM]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    said = b""
    with subprocess.Popen(command, cwd=_REPOSITORY, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        while said.count(b"redriven 3, failed 1 ...") < 2:  # it is drawn again and again
            said += os.read(ours, 65_536)
        os.write(ours, b"\n")
        with suppress(OSError):  # Linux says so when the other side is closed
            while chunk := os.read(ours, 65_536):
                said += chunk
    os.close(ours)
    screen = said.decode()
    assert "failed: letter 7\r\n" in screen, "a line of its own, above it"
    assert screen.rindex("\x1b[2K") > screen.rindex("redriven 3"), "the line is cleared"
    assert screen.endswith("the summary\r\n")


def test_long_result_goes_on_below_its_first_line() -> None:
    program = """
from app.cli.output.steps import Steps
with Steps() as steps:
    steps.done("worker", "events at http://localhost:8080, metrics at http://localhost:8081/metrics")
"""
    env = {**os.environ, "TERM": "dumb", "TTY_COMPATIBLE": "1", "COLUMNS": "60", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=_REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.splitlines() == [
        "✓ worker      events at http://localhost:8080, metrics at",
        "              http://localhost:8081/metrics",
    ]


def test_progress_without_a_terminal_is_lines() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=_REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr.splitlines() == ["redriven 3, failed 1 ...", "failed: letter 7"]
    assert done.stdout == "the summary\n"
