"""Alerts and dashboards of the manifests against what they name: metrics, runbooks, cases for promtool, limits."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.kube.kustomize import MANIFESTS
from tests.support.kube.manifests import documents
from tests.support.processes import REPOSITORY
from tests.support.prometheus import CENSUS, DASHBOARDS, dashboards, queries, rule_groups

RULES = [rule for group in rule_groups() for rule in group["rules"]]
RUNBOOKS = "docs/how-to/runbooks.md"
#: Of the exporters that every Prometheus client library has; `docs/reference/metrics.md` lists them as `process_*`.
PROCESS = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
CASES = [
    case
    for file in sorted((REPOSITORY / "tests" / "observe" / "alerts").glob("*.yaml"))
    for test in yaml.safe_load(file.read_text())["tests"]
    for case in test["alert_rule_test"]
]
FAULTS = "\n".join(file.read_text() for file in sorted((REPOSITORY / "tests" / "observe").glob("test_*.py")))


def _metrics() -> set[str]:
    """All series that the reference promises."""
    names = set(PROCESS)
    for page in ("docs/reference/metrics.md", "examples/census/README.md"):
        text = (REPOSITORY / page).read_text()
        names.update(re.findall(r"^\| `(kafka_scale_\w+)` \|", text, re.MULTILINE))
        for name, kind in re.findall(r"^\| `((?:penstock|eventing)_\w+)` \| (\w+) \|", text, re.MULTILINE):
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            names.update(f"{name}{end}" for end in ends)
    return names


def _unknown(expression: str) -> set[str]:
    """What looks like a metric in a query and is not one."""
    named = set(re.findall(r"\b(?:penstock|eventing|process|python|kafka_scale)_\w+", expression))
    assert named, f"no metric in {expression}"
    return named - _metrics()


def test_alert_has_metrics_runbook_cases_and_a_fault(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        name = rule["alert"]
        with subtests.test(name):
            assert _unknown(rule["expr"]) == set()
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert rule["annotations"]["summary"].endswith(".")
            assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}"
            fires = {bool(case["exp_alerts"]) for case in CASES if case["alertname"] == name}
            assert fires == {True, False}, "promtool needs a case in which it fires and one in which it does not"
            assert f'"{name}"' in FAULTS, "it needs a real fault that causes it, in tests/observe"


def test_each_runbook_is_that_of_an_alert() -> None:
    sections = re.findall(r"^## (.+)$", (REPOSITORY / RUNBOOKS).read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in RULES]
    assert {case["alertname"] for case in CASES} == set(sections)
    titles = {panel["title"] for panel in dashboards()["penstock.json"]["panels"]}
    named = {
        name
        for some in re.findall(
            r"\bpanels?((?: (?:and )?\"[^\"]+\")+)", " ".join((REPOSITORY / RUNBOOKS).read_text().split())
        )
        for name in re.findall(r'"([^"]+)"', some)
    }
    assert named
    assert named <= titles


@pytest.mark.parametrize("name", dashboards())
def test_dashboard_has_metrics_and_panels_that_fit(name: str) -> None:
    dashboard = dashboards()[name]
    variables = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    for query in queries(dashboard):
        assert _unknown(query.expression) == set(), query.panel
        assert set(re.findall(r"\$(\w+)", query.expression)) <= variables, query.panel
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(taken)) == len(taken), "panels that overlap"
    assert max(x for x, _ in taken) < 24


def test_every_dashboard_is_in_the_component() -> None:
    (component,) = documents(DASHBOARDS / "kustomization.yaml")
    (generator,) = component["configMapGenerator"]
    assert set(generator["files"]) == set(dashboards()) - {CENSUS}
    assert generator["options"]["labels"]["grafana_dashboard"] == "1"
    assert len({dashboard["uid"] for dashboard in dashboards().values()}) == len(dashboards())


def test_memory_is_compared_with_the_limits_of_the_manifests() -> None:
    limits: dict[bool, set[str]] = {True: set(), False: set()}
    for folder in ("components/controller", "components/dispatcher", "components/dispatcher-service", "overlays"):
        for file in (MANIFESTS / folder).rglob("*.yaml"):
            text = file.read_text()
            if "image: registry.example.com/penstock\n" in text:
                limits["component: controller" in text].update(re.findall(r"limits:\n +memory: (\w+)Mi", text))
    (rule,) = (candidate for candidate in RULES if candidate["alert"] == "PenstockMemoryNearLimit")
    numbers = re.findall(r"component(!?=)\"controller\"} > 0\.9 \* (\d+) \* 1024 \^ 2", rule["expr"])
    assert limits == {True: {dict(numbers)["="]}, False: {dict(numbers)["!="]}}


def test_metric_that_does_not_exist_is_found() -> None:
    assert _unknown("rate(penstock_settled_total[5m]) / penstock_produce_seconds") == {"penstock_produce_seconds"}
    assert _unknown("sum(penstock_nothing)") == {"penstock_nothing"}
