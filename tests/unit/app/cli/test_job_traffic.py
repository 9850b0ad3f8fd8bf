"""`penstock job traffic`: which tables a run may replace."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

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


def test_count_of_a_time_range_does_not_delete_the_tables_of_a_job_that_continues(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    write_tables(folder, [Window(60, 60, "stored", "ns", "a", counts=Counts(1))])
    plan = Plan(TrafficPlan({}, {}, "", folder, lambda *_: {}, since_s=1.0), ())
    with pytest.raises(UsageError, match="this run would delete") as raised:
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
    assert "--folder" in raised.value.hint
    assert len(read_windows(folder)) == 1
    former = tmp_path / "former"
    write_former(former, [Window(60, 60, "stored", "ns", "a", counts=Counts(1))], None)
    for query in ("records", "deltas"):
        shutil.rmtree(former / query / "checkpoint")  # which its first batch makes after its tables
    plan = replace(plan, traffic=replace(plan.traffic, folder=former))
    with pytest.raises(UsageError, match="this run would delete"):
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
    assert list(former.rglob("*.parquet"))


def test_job_does_not_continue_with_the_count_of_a_time_range(tmp_path: Path) -> None:
    write_tables(tmp_path, [Window(60, 60, "stored", "ns", "a", counts=Counts(1))], is_span=True)
    plan = Plan(TrafficPlan({}, {}, "", tmp_path, lambda *_: {}, cluster="cluster"), ())
    with pytest.raises(UsageError, match="count of a time range"):
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
    assert len(read_windows(tmp_path)) == 1


def test_interval_needs_a_run_that_follows() -> None:
    done = CliRunner().invoke(cli, ["job", "traffic", "--interval", "30"])

    assert isinstance(done.exception, UsageError)
    assert "Add --follow" in done.exception.hint
