"""The census example as a user runs it: its totals are those of a plain count, after kill -9 of each of its parts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.system

_LINES = 1_207  #: of each file, ten to a chunk
_LIMIT_S = 1800.0  # Spark starts twice, and a start takes minutes on a machine that is busy


def test_totals_are_exact_after_kills(kafka: EmbeddedKafka) -> None:
    """Of read, of one of two that count, and of the one that adds up."""
    command = [sys.executable, "-m", "examples.census", "demo", "--lines", str(_LINES), "--kafka", kafka.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["equal"] is True
    assert (report["lines"], report["chunks"]) == (4 * _LINES, 4 * -(-_LINES // 10))
    assert report["repeats"] > 0  # of what the killed read had written
    assert report["years"].keys() == {"2018", "2019"}
    assert "it is truncated" in done.stderr
    assert "2 of 6 files gave a problem" in done.stderr
    for name in ("read-1", "compute-1", "results"):
        assert f"Killing {name}" in done.stderr
