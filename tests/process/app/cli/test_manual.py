"""The manual pages as `man` shows them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from app.cli.manual import FOLDER

pytestmark = pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")


def _shown(*names: str) -> subprocess.CompletedProcess[str]:
    pages = [str(FOLDER / f"{name}.1") for name in names]
    command = ["groff", "-man", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u", "-P-o", "-rLL=200n", *pages]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


def test_they_have_no_warnings() -> None:
    assert _shown(*(path.stem for path in FOLDER.iterdir())).stderr == ""


def test_what_can_be_copied_is_as_in_the_help() -> None:
    """Quotes, braces and hyphens too."""
    page = _shown("penstock-send").stdout
    assert """penstock send --data '{"hello": "world"}'""" in page
    assert "-a, --attribute <list[str]>" in page
    assert "penstock-send - Send one event or many to a channel or broker" in page
    assert "penstock status -o wide --watch" in _shown("penstock-status").stdout
