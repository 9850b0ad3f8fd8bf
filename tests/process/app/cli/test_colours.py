"""Colours: on a terminal, and never where NO_COLOR is set."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[4]
_COLOUR = re.compile(rb"\x1b\[(?:[0-9]+;)*(?:3|4|9|10)[0-9](?:;[0-9]+)*m")


def _on_a_terminal(*arguments: str, **variables: str) -> bytes:
    """What a command prints, on both channels."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_REPOSITORY), "TERM": "xterm-256color", **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    screen = b""
    with suppress(OSError):  # Linux says so when the other side is closed
        while chunk := os.read(ours, 65_536):
            screen += chunk
    os.close(ours)
    process.wait(180)
    return screen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["validate", str(_REPOSITORY / "knative" / "manifests" / "rbac")], b"warning"),  # a table
        (["send", "--channel", "x"], b"Write NAMESPACE/NAME"),  # an error
        (["--help"], b"Examples:"),
    ],
    ids=["table", "error", "help"],
)
def test_output_has_no_colours_with_no_color(arguments: list[str], words: bytes) -> None:
    coloured, plain = _on_a_terminal(*arguments), _on_a_terminal(*arguments, NO_COLOR="1")
    assert words in plain
    assert _COLOUR.search(coloured)
    assert not _COLOUR.search(plain)
