"""The census demo as a user runs it: totals are exactly those of a plain count, also after kill -9 of its parts."""

from __future__ import annotations

import json
import subprocess
import sys

from app.local.kafka import EmbeddedKafka
from tests.support.processes import REPOSITORY

_LINES = 1_207  #: of each file, ten to a chunk
_LIMIT_S = 2000.0  # Spark starts twice, and a start takes minutes on a machine that is busy


def check_totals(kafka: EmbeddedKafka, *arguments: str) -> None:
    """Its report also says that chunks were computed twice: all of the file that was read again, and what the kills met
    under way."""
    command = [sys.executable, "-m", "app.cli", "census", "demo", "--lines", str(_LINES), "--kafka", kafka.bootstrap]
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["equal"] is True
    assert report["lines"] == 4 * _LINES
    assert report["repeats"] >= -(-_LINES // 10)
    assert report["years"].keys() == {"2018", "2019"}
    assert "it is truncated" in done.stderr
    assert "Killing compute" in done.stderr
    assert "Killing results" in done.stderr
