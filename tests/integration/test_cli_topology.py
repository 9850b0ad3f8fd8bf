"""`penstock topology` against a real Kafka: with and without workers and traffic, wrong input, files, comparison."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analytics.topology.model.document import Kind, Tier, Topology, from_json, to_json
from app.cli import cli
from app.local.kafka import EmbeddedKafka
from knative.errors import PenstockError
from tests.integration.topology_inputs import deltas, publish, status, topics
from tests.support.planted_faults import FAULTS, faulty, healthy
from tests.support.processes import free_port, run
from tests.support.topologies import small

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[2]
FILES = {
    "report.html", "topology.json", "topology.mmd", "topology.dot",
    "vertices.csv", "vertices.parquet", "edges.csv", "edges.parquet", "findings.csv", "findings.parquet",
    "totals.csv", "totals.parquet",
}  # fmt: skip


class Command:
    """`penstock topology` for one installation."""

    def __init__(self, bootstrap: str, instance: str, folder: Path) -> None:
        self.bootstrap, self.instance, self.folder = bootstrap, instance, folder

    def __call__(self, *arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(("-c", program) if program else ("-m", "app.cli")), "topology", *arguments]
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY),
            "PENSTOCK_KAFKA": self.bootstrap,
            "PENSTOCK_INSTANCE": self.instance,
            "PENSTOCK_TRAFFIC_DIR": str(self.folder / "traffic"),
        }
        return run(command, environment, folder=self.folder)

    def document(self, *arguments: str) -> Topology:
        """What a run that must succeed prints."""
        done = self(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return from_json(done.stdout.encode())


@pytest.fixture
def command(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> Command:
    return Command(kafka.bootstrap, f"i{topic_name()}", tmp_path)


def test_planted_faults_in_kafka_are_found(command: Command, tmp_path: Path) -> None:
    """From contract, statuses and deltas, each counted once; then the files, one namespace, and two runs compared."""
    topics(command.bootstrap, command.instance)
    publish(command.bootstrap, command.instance, faulty())
    at = deltas(command.bootstrap, command.instance, faulty())
    status(command.bootstrap, command.instance, faulty())

    done = command("--out", "report", "--fail-on", "critical")

    assert done.returncode == 1, done.stderr
    assert "CRITICAL Events go in a loop: test/ping, test/pong" in done.stdout
    assert done.stdout.splitlines()[-1] == "13 findings: 4 critical, 7 warning, 2 info."
    assert {path.name for path in (tmp_path / "report").iterdir()} == FILES
    topology = from_json((tmp_path / "report" / "topology.json").read_bytes())
    asked = json.loads(command("impact", "type:t", "--from", "report/topology.json", "-o", "json").stdout)
    assert asked["vertex"]["kind"] == "event-type"
    assert {row["id"] for row in asked["upstream"]} >= {
        vertex.id for vertex in topology.vertices if vertex.kind is Kind.SOURCE
    }
    certain = {row["certain"] for row in asked["downstream"] if row["kind"] == "subscription" and row["hops"] == 2}
    assert certain == {True}, "no subscription has a filter"
    assert {finding.id for finding in topology.findings} == FAULTS
    assert topology.tier is Tier.DELTAS
    assert topology.window.start == at
    assert pq.read_table(tmp_path / "report" / "edges.parquet").num_rows == len(topology.edges)

    compared = command("--diff", "report/topology.json", "--since", "10s", "-o", "json")
    difference = json.loads(compared.stdout)
    assert {gone["id"] for gone in difference["findings_gone"]} >= {"unbalanced:subscription:test/sieve"}
    assert difference["vertices_gone"] == sorted(
        {vertex.id for vertex in topology.vertices if vertex.kind in (Kind.SOURCE, Kind.EVENT_TYPE)}
    )


def test_topology_is_there_without_workers_and_without_traffic(command: Command) -> None:
    """The contract is enough; Spark's start is not paid for nothing."""
    topics(command.bootstrap, command.instance, traffic=False)
    publish(command.bootstrap, command.instance, healthy())

    topology = command.document()

    assert [finding.id for finding in topology.findings] == ["no-worker:"]
    assert topology.tier is Tier.NONE
    assert all(edge.rate is None for edge in topology.edges)
    status(command.bootstrap, command.instance, healthy())
    topology = command.document()
    assert not topology.findings
    assert topology.tier is Tier.STATUS
    assert {edge.rate for edge in topology.edges if edge.kind.value == "delivers"} == {1.5}
    program = (
        "import sys; from app.cli import cli; cli(standalone_mode=False); "
        "print([name for name in ('pyspark', 'networkx', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    assert command(program=program).stdout.splitlines()[-1] == "[]"


def test_invalid_input_is_a_readable_error(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: a command takes seconds to start on a busy machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_KAFKA", command.bootstrap)
    monkeypatch.setenv("PENSTOCK_INSTANCE", command.instance)

    def fails(*arguments: str) -> tuple[int, str]:
        with pytest.raises(PenstockError) as caught:
            cli(["topology", *arguments], standalone_mode=False)
        return caught.value.exit_code, str(caught.value)

    code, words = fails()
    assert code == 1
    assert "no installation" in words
    topics(command.bootstrap, command.instance)
    publish(command.bootstrap, command.instance, healthy())
    (tmp_path / "page.html").write_text("<html>")
    (tmp_path / "old.json").write_bytes(to_json(small()))
    for arguments, exit_code, reported in (
        (("--namespace", "nowhere"), 1, "The namespace nowhere has no channels or subscriptions; known: test."),
        (("--since", "soon"), 2, "--since 'soon' is not a valid time"),
        (("--diff", "missing.json"), 2, "--diff missing.json cannot be read: No such file"),
        (("--diff", "page.html"), 1, "not a topology.json"),
        (("--diff", "old.json", "-o", "dot"), 2, "--diff does not support -o dot"),
        (("--traffic", "windows"), 1, "penstock job traffic"),
        (("--kafka", f"127.0.0.1:{free_port()}"), 3, "does not answer"),
        (("--out", "/dev/null/x"), 1, "cannot be written to /dev/null/x"),
    ):
        code, words = fails(*arguments)
        assert (code, reported in words) == (exit_code, True), words
    capsys.readouterr()
    for shape, begin in (
        ("mermaid", "flowchart LR"),
        ("dot", "digraph"),
        ("csv", "id,source"),
        ("html", "<!"),
        ("graphml", "<?xml"),
        ("asyncapi", '{\n  "asyncapi": "3.0.0"'),
        ("backstage", "apiVersion: backstage.io/v1alpha1\nkind: System"),
        ("openlineage", '{"eventTime"'),
    ):
        cli(["topology", "--namespace", "test", "-o", shape], standalone_mode=False)
        assert capsys.readouterr().out.startswith(begin)
