"""`penstock job traffic`: which tables a run may replace."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analytics.traffic.job import TrafficPlan
from analytics.traffic.read import read_windows
from analytics.traffic.windows import Window
from app.cli import cli
from app.cli.job.traffic import _run
from app.cli.options.spark import JobOptions
from app.cli.output.format import Format
from app.operations.traffic_plan import Plan
from knative.errors import UsageError
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_former, write_tables

_WINDOWS = [Window(60, 60, "stored", "ns", "a", counts=Counts(1))]


def _run_into(folder: Path, **fields: Any) -> None:
    plan = TrafficPlan({}, {}, "", folder, lambda *_: {}, **fields)
    _run(Plan(plan, ()), JobOptions("", "", "", "", ()), reset=False, output=Format.TABLE)


def test_count_of_a_time_range_does_not_delete_the_tables_of_a_job_that_continues(tmp_path: Path) -> None:
    write_tables(tmp_path, _WINDOWS)
    with pytest.raises(UsageError, match="this run would delete") as raised:
        _run_into(tmp_path, since_s=1.0)
    assert "--folder" in raised.value.hint
    assert len(read_windows(tmp_path)) == 1


def test_count_of_a_time_range_does_not_delete_tables_of_the_former_format(tmp_path: Path) -> None:
    folder = tmp_path / "former"
    write_former(folder, _WINDOWS, None)
    for query in ("records", "deltas"):
        shutil.rmtree(folder / query / "checkpoint")  # which its first batch makes after its tables
    with pytest.raises(UsageError, match="this run would delete"):
        _run_into(folder, since_s=1.0)
    assert list(folder.rglob("*.parquet"))


def test_job_does_not_continue_with_the_count_of_a_time_range(tmp_path: Path) -> None:
    write_tables(tmp_path, _WINDOWS, is_span=True)
    with pytest.raises(UsageError, match="count of a time range"):
        _run_into(tmp_path, cluster="cluster")
    assert len(read_windows(tmp_path)) == 1


def test_interval_needs_a_run_that_follows() -> None:
    done = CliRunner().invoke(cli, ["job", "traffic", "--interval", "30"])

    assert isinstance(done.exception, UsageError)
    assert "Add --follow" in done.exception.hint
