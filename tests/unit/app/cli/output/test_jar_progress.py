"""The progress bar leaves the terminal as it was."""

from __future__ import annotations

import pytest

from app.cli.output.jar_progress import jar_progress

_CURSOR_BACK = "\x1b[?25h"


def test_bar_leaves_the_terminal_with_the_last_jar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not only at the end of the block: the stack runs in it, and its children write to the same terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with jar_progress() as progress:
        assert capsys.readouterr().err == ""  # nothing to bring, nothing to show
        progress(0, 2)
        progress(1, 2)
        assert _CURSOR_BACK not in capsys.readouterr().err
        progress(2, 2)
        assert _CURSOR_BACK in capsys.readouterr().err
