"""Completion of a shell, as the shell asks for it."""

from __future__ import annotations

import pytest

from tests.support.processes import penstock


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("zsh", "#compdef penstock"),
        ("bash", "complete -o default -F _penstock_completion penstock"),
        ("fish", "complete --command penstock"),
    ],
)
def test_completion_for_a_shell_by_name(shell: str, says: str) -> None:
    done = penstock("--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
    assert f"_PENSTOCK_COMPLETE=complete_{shell}" in done.stdout
