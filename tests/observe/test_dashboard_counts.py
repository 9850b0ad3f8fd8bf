"""Panels of counts, by promtool on made-up series: what appears for the first time counts, and counts are whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.prometheus import dashboards, queries

LIMIT_S = 120.0
SERIES = {
    "Events stored again in the last hour": ("penstock_produce_stored_again_total", {"topic": "t"}),
    "Not delivered in the last hour": ("penstock_settled_total", {"subscription": "ns/a", "verdict": "dead-lettered"}),
    "Rebalances in the last hour": ("penstock_rebalances_total", {"subscription": "ns/a", "kind": "lost"}),
    "Expired in the last hour": ("penstock_records_expired_total", {"subscription": "ns/a"}),
}


def _expression(title: str) -> str:
    (expression,) = [query.expression for query in queries(dashboards()["penstock.json"]) if query.panel == title]
    return expression.replace("$namespace", ".*").replace("$subscription", ".*")


def _shown(labels: dict[str, str], metric: str = "") -> str:
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _promtool(folder: Path, tests: list[dict[str, object]]) -> None:
    (folder / "test.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
    command = ["promtool", "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("title", sorted(SERIES))
@pytest.mark.parametrize(
    ("values", "at", "expected"),
    [
        ("_x30 500x90", "50m", 500),  # the first scrape that has it has 500
        ("_x30 500x10 507x80", "50m", 507),
        ("500x80 501x20", "90m", 1),  # Prometheus extrapolates to 1.02
        ("500x180", "100m", 0),
        ("_x180", "100m", None),
    ],
)
def test_count_of_an_hour(title: str, values: str, at: str, expected: int | None, tmp_path: Path) -> None:
    metric, labels = SERIES[title]
    samples = [] if expected is None else [{"labels": _shown(labels), "value": expected}]
    case = {"expr": _expression(title), "eval_time": at, "exp_samples": samples}
    series = {"series": _shown({"namespace": "n", **labels}, metric), "values": values}
    _promtool(tmp_path, [{"interval": "1m", "input_series": [series], "promql_expr_test": [case]}])


@pytest.mark.parametrize(("owned", "expected"), [("1x10", 7), ("0x10", None)])
def test_no_lag_is_shown_where_no_worker_owns_a_partition(owned: str, expected: int | None, tmp_path: Path) -> None:
    labels = {"namespace": "n", "subscription": "ns/a"}
    lag = "7x10" if expected else "0x10"
    series = [
        {"series": _shown(labels, "penstock_lag_events"), "values": lag},
        {"series": _shown(labels, "penstock_owned_partitions"), "values": owned},
    ]
    samples = [] if expected is None else [{"labels": '{subscription="ns/a"}', "value": expected}]
    case = {"expr": _expression("Lag"), "eval_time": "5m", "exp_samples": samples}
    _promtool(tmp_path, [{"interval": "1m", "input_series": series, "promql_expr_test": [case]}])
