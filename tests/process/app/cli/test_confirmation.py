"""Commands whose work cannot be undone ask on a terminal, and refuse without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[4]
_PROGRAM = """
from app.cli.options.confirmation import asks, confirm
try:
    if asks({yes}, "A seek"):
        confirm("Move these offsets?")
    print("done")
except Exception as problem:
    print(problem)
"""


def _on_a_terminal(answer: bytes, *, yes: bool) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(yes=yes)], cwd=_REPOSITORY, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        os.write(ours, answer)
        said = b""
        with suppress(OSError):  # Linux says so when the other side is closed
            while chunk := os.read(ours, 65_536):
                said += chunk
    os.close(ours)
    return said.decode()


@pytest.mark.parametrize(
    ("answer", "yes", "end"),
    [
        (b"y\n", False, "done"),
        (b"n\n", False, "Nothing was changed."),
        (b"\n", False, "Nothing was changed."),
        (b"", True, "done"),
    ],
)
def test_command_on_a_terminal_asks_and_obeys(answer: bytes, yes: bool, end: str) -> None:
    said = _on_a_terminal(answer, yes=yes)
    assert ("Move these offsets? [y/N]" in said) is not yes
    assert said.rstrip().endswith(end)


@pytest.mark.parametrize(("yes", "end"), [(False, "there is no terminal to ask on. Add --yes."), (True, "done")])
def test_command_without_a_terminal_needs_yes(yes: bool, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(yes=yes)],
        cwd=_REPOSITORY,
        input="y\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (done.stdout.rstrip().endswith(end), done.stderr) == (True, "")
