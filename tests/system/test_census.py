"""The census demo as a user runs it: totals are exactly those of a plain count, also after kill -9 of its parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.processes import REPOSITORY
from tests.support.spark_cluster import CONF, cluster

pytestmark = pytest.mark.system

_LINES = 1_207  #: of each file, ten to a chunk
_LIMIT_S = 2000.0  # Spark starts twice, and a start takes minutes on a machine that is busy


def _demo(kafka: EmbeddedKafka, *arguments: str) -> None:
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


def test_totals_are_exact_after_kills_with_spark_on_a_cluster(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A master and two workers; `make demo-census` runs the same in one process of Spark."""
    with cluster(tmp_path) as master:
        conf = [text for name, value in CONF.items() for text in ("--conf", f"{name}={value}")]
        _demo(kafka, "--master", master, *conf)


def test_totals_are_exact_after_kills_with_faust(kafka: EmbeddedKafka) -> None:
    """A group of one."""
    _demo(kafka, "--engine", "faust")
