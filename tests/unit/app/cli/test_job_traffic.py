"""`penstock job traffic`: which tables a run may replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.traffic.job import TrafficPlan
from analytics.traffic.store import TABLES
from app.cli.job.traffic import _run
from app.cli.options.spark import JobOptions
from app.cli.output.format import Format
from app.operations.traffic_plan import Plan
from knative.errors import UsageError


def test_a_count_of_a_time_range_does_not_delete_the_tables_of_a_job_that_continues(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    kept = folder / "records" / "parts" / "batch=0"
    for one in (kept, folder / "records" / "checkpoint" / "offsets"):
        one.mkdir(parents=True)
    (folder / TABLES).write_text("{}")
    plan = Plan(TrafficPlan({}, {}, "", folder, since_s=1.0), ())
    with pytest.raises(UsageError, match="would be deleted") as raised:
        _run(plan, JobOptions("", "", "", "", ()), False, Format.TABLE)
    assert "--folder" in raised.value.hint
    assert kept.is_dir()
