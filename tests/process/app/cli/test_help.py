"""Completion of a shell, as the shell asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[4]


def _penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=_REPOSITORY)


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("zsh", "#compdef penstock"),
        ("bash", "complete -o default -F _penstock_completion penstock"),
        ("fish", "complete --command penstock"),
    ],
)
def test_completion_for_a_shell_by_name(shell: str, says: str) -> None:
    done = _penstock("--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
    assert f"_PENSTOCK_COMPLETE=complete_{shell}" in done.stdout
