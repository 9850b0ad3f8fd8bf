"""`make demo-console`, short: the address that it prints is that of a console which shows the planted faults."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.processes import wait_until

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).parents[2]


def test_address_that_it_prints_shows_the_planted_faults(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        demo = subprocess.Popen(
            [sys.executable, "-m", "app.cli.demos.console", "--seconds", "20"],
            stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=REPOSITORY,
        )  # fmt: skip
        try:
            wait_until("it says where to look", lambda: "/map" in log.read_text() or demo.poll() is not None, 300.0)
            address = re.search(r"^\s+(http://localhost:\d+)$", log.read_text(), re.MULTILINE)
            assert address is not None, log.read_text()

            def shows(path: str, text: str) -> bool:
                with urllib.request.urlopen(address[1] + path, timeout=60) as answer:
                    return text in answer.read().decode()

            wait_until("the map shows the loop", lambda: shows("/map", "Events go in a loop: games/ping"), 60.0)
            assert shows("/", "billing")
            output, _ = demo.communicate(timeout=300)
        finally:
            demo.kill()
            demo.wait()
    assert demo.returncode == 0, log.read_text()
    assert json.loads(output.splitlines()[-1])["accepted"] > 0
