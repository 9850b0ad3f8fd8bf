"""`penstock job traffic`: which tables a run may replace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analytics.traffic.job import TrafficPlan
from analytics.traffic.read import read_windows
from analytics.traffic.windows import Window
from app.cli.job.traffic import _run
from app.cli.options.spark import JobOptions
from app.cli.output.format import Format
from app.operations.traffic_plan import Plan
from knative.errors import UsageError
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_tables


def test_a_count_of_a_time_range_does_not_delete_the_tables_of_a_job_that_continues(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    write_tables(folder, [Window(60, 60, "stored", "ns", "a", counts=Counts(1))])
    plan = Plan(TrafficPlan({}, {}, "", folder, lambda *_: {}, since_s=1.0), ())
    with pytest.raises(UsageError, match="would be deleted") as raised:
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
    assert "--folder" in raised.value.hint
    assert len(read_windows(folder)) == 1
    shutil.rmtree(folder)
    (folder / "records" / "checkpoint" / "offsets").mkdir(parents=True)  # of the former format
    with pytest.raises(UsageError, match="would be deleted"):
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
