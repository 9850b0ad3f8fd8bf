"""What is read of a folder in which another process writes files and renames them, as the product does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import contents, paths_below

_LOOKS = 300
_RESTLESS = """
import itertools, os, sys, threading
place = sys.argv[1]
def files():
    for number in itertools.count():
        new = f"{place}/.{number}.new"
        with open(new, "w") as file:
            file.write("x" * 1000)
        os.replace(new, f"{place}/state.json")
        if number == 100:
            print(flush=True)
def folders():
    for number in itertools.count():
        os.makedirs(f"{place}/folder-{number % 7}/below")
        os.removedirs(f"{place}/folder-{number % 7}/below")
threading.Thread(target=files).start()
threading.Thread(target=folders).start()
"""


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[Path]:
    """A folder with two files that stay, and others that come and go."""
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "stays.json").write_text("s")
    (tmp_path / "state.json").write_text("x" * 1000)
    command = [sys.executable, "-c", _RESTLESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield tmp_path
        assert process.poll() is None
        process.kill()


def test_all_that_stays_is_read(restless: Path) -> None:
    for _ in range(_LOOKS):
        files = contents(restless)
        assert files[restless / "deep" / "deeper" / "stays.json"] == b"s"
        assert files[restless / "state.json"] == b"x" * 1000


def test_all_that_stays_is_listed(restless: Path) -> None:
    for _ in range(_LOOKS):
        paths = set(paths_below(restless))
        assert paths >= {restless / "deep", restless / "deep" / "deeper", restless / "state.json"}
