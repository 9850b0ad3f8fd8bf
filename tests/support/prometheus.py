"""A real Prometheus that scrapes processes of a test, and the alert rules of the manifests as a file for it.

Needs the programs of Debian's package `prometheus`.
"""

from __future__ import annotations

import json
import shutil
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube.kustomize import COMPONENTS
from tests.support.kube.manifests import documents
from tests.support.processes import REPOSITORY, Child, free_port, get, wait_until

PROGRAMS = ("prometheus", "promtool")
ALERTS = COMPONENTS / "alerts" / "prometheus-rule.yaml"
DASHBOARDS = COMPONENTS / "dashboards"
CENSUS = "examples/census/dashboard.json"
_LIMIT_S = 120.0
ALERTS_LIMIT_S = 300.0
Alert = tuple[str, str]  #: its name, and its subscription or ""


def missing() -> list[str]:
    """Programs that this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def rule_groups() -> list[dict[str, Any]]:
    """The groups of the PrometheusRule of the manifests."""
    (rule,) = documents(ALERTS)
    groups: list[dict[str, Any]] = rule["spec"]["groups"]
    return groups


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `legend` names labels as `{{label}}`."""

    panel: str
    expression: str
    legend: str


def dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards of the manifests by file name, and that of the census by its path."""
    paths = {path.name: path for path in sorted(DASHBOARDS.glob("*.json"))} | {CENSUS: REPOSITORY / CENSUS}
    return {name: json.loads(path.read_text()) for name, path in paths.items()}


def queries(dashboard: dict[str, Any]) -> list[Query]:
    return [
        Query(panel["title"], target["expr"], target["legendFormat"])
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


def write_rules(folder: Path) -> Path:
    """`rules.yaml` as Prometheus reads it, which the operator makes of a PrometheusRule."""
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule_groups()}))
    return path


class Prometheus(Child):
    """Scrapes each second. `targets`: address of each process to scrape, and the labels that it gets."""

    def __init__(self, folder: Path, targets: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        static = [{"targets": [target], "labels": dict(labels)} for target, labels in targets]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(write_rules(folder))],
            "scrape_configs": [{"job_name": "penstock", "static_configs": static}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        files = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")
        address = f"--web.listen-address=127.0.0.1:{self.port}"
        super().__init__("prometheus", ["prometheus", *files, address], folder)

    def wait_ready(self) -> Prometheus:
        """Until it answers queries."""
        wait_until("Prometheus is ready", lambda: get(self.port, "/-/ready")[0] == 200, _LIMIT_S)
        return self

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        series: list[dict[str, Any]] = self._ask("query", query=expression)["result"]
        return series

    def rules(self) -> list[dict[str, Any]]:
        """Each rule with its health and its alerts."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def alerts(self) -> set[Alert]:
        """Name and subscription ("" = none) of all alerts, pending or firing."""
        return {
            (rule["name"], alert["labels"].get("subscription", "")) for rule in self.rules() for alert in rule["alerts"]
        }

    def wait_alerts(
        self, due: Set[Alert], meanwhile: Callable[[], object] = lambda: None,
        counts: Callable[[Alert], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        """Until the alerts are `due`, of those that `counts` is true of; `meanwhile` is called before each look."""
        alerts: set[Alert] = set()

        def are_there() -> bool:
            nonlocal alerts
            meanwhile()
            alerts = set(filter(counts, self.alerts()))
            return alerts == due

        try:
            wait_until(f"alerts are {due}", are_there, ALERTS_LIMIT_S, poll_s=0.5)
        except AssertionError as error:
            raise AssertionError(f"{alerts} instead of {due}") from error

    def _ask(self, what: str, **parameters: str) -> Any:
        status, body = get(self.port, f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}")
        answer = json.loads(body)
        assert status == 200, f"{parameters}: {answer}"
        return answer["data"]
