"""The jobs on a master and two workers: traffic counts the same after a kill, the census is read, and the topology is
the same as without a cluster.

The tables that the traffic job leaves behind are what the topology gets its rates and latencies from: by Spark on the
cluster, by Spark here, and without Spark.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.spark.session import SMALL_SETTINGS
from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Topology, from_json
from analytics.traffic.read import read_windows
from app.cli import cli
from app.local.kafka import EmbeddedKafka
from app.operations.topology.job import run
from app.operations.topology.reading import TopologyQuery, read_inputs
from examples.census.model import count
from examples.census.samples import plain_count, write
from examples.census.totals import Totals
from knative.traffic import latency_sketch
from tables.kafka.topic_reader import TopicReader
from tests.integration.cli_fixture import StoredInstallation
from tests.integration.topology_inputs import deltas, publish, status
from tests.support.planted_faults import faulty
from tests.support.processes import REPOSITORY, wait_until
from tests.support.traffic import Sent, shown
from tests.system.spark_cluster import CONF, QUICK, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system

_LIMIT_S = 900.0  #: a minute where there is nothing else to do
_BEGIN_S = int(time.time()) // 60 * 60 - 3600  # Kafka drops what is older than its retention
_RECORDS = 3000
#: For jobs that are killed: one executor, which takes half of the CPU. The run that goes on after them has two.
_ONE_EXECUTOR = {**CONF, "spark.cores.max": "1"}
_CONF_OPTIONS = [text for name, value in _ONE_EXECUTOR.items() for text in ("--conf", f"{name}={value}")]
_SECOND_RUN = """
import json, sys
from dataclasses import replace
from pathlib import Path
from analytics.spark.session import spark_session
from analytics.topology.model.document import to_json
from analytics.topology.engines.local import LocalEngine
from analytics.traffic.job import TrafficJob
from app.operations.spark_jars import jar_places, spark_options
from app.operations.topology.job import run
from app.operations.topology.reading import TopologyQuery
from app.operations.traffic_plan import plan_traffic

def ask(rows):
    import knative.traffic.latency_sketch
    yield knative.traffic.latency_sketch.__file__

master, kafka, instance, folder, now, since, conf = sys.argv[1:]
client = {"bootstrap.servers": kafka}
plan = plan_traffic(client, Path(folder)).traffic
with spark_session(spark_options("second", master, jars=jar_places(), conf=json.loads(conf))) as spark:
    summary = TrafficJob(spark, replace(plan, records_max=3000)).run()
    query = TopologyQuery(client, instance, float(now), float(since), float(now), folder=Path(folder))
    found = run(spark, query, lambda _: (LocalEngine(), ""))
    places = spark.sparkContext.parallelize(range(2), 2).mapPartitions(ask).collect()
drawn = json.loads(to_json(found))
print(json.dumps([summary.counters, summary.stopped, places, drawn]))
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("spark")) as address:
        yield address


def test_census_is_read_by_workers_that_do_not_have_it(
    kafka: EmbeddedKafka, topic_name: Callable[[], str], master: str, tmp_path: Path
) -> None:
    """Each chunk is read once, and together they have what a plain loop over the files counts. test_census has the
    kills."""
    files = [write(tmp_path, 2019, month, 1_003, 0.03) for month in ("jan", "feb")]
    topic, totals = topic_name(), Totals()
    done = subprocess.run(
        [sys.executable, "-m", "examples.census", "read", "--years", "2019", *(f"--from-file={path}" for path in files),
         "--compute-topic", topic, "--kafka", kafka.bootstrap, "--master", master, *_CONF_OPTIONS],
        capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "202 chunks of 2006 lines; 0 of 2 files gave a problem" in done.stderr
    with TopicReader(topic, {"bootstrap.servers": kafka.bootstrap}) as reader:
        for record in reader.stored():
            totals.add(*count(record.key, record.value))
    assert totals.words() == plain_count([(2019, path) for path in files])
    assert totals.complete


def test_cluster_counts_a_killed_job_right_and_draws_the_same_map(
    kafka: EmbeddedKafka,
    topic_name: Callable[[], str],
    spark: SparkSession,
    master: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site, sent = _world(kafka, topic_name())
    folder = tmp_path / "traffic"
    now = time.time()
    client = {"bootstrap.servers": kafka.bootstrap}
    wish = TopologyQuery(client, site.instance, now, _BEGIN_S, now, folder=folder)
    counted = _killed(site, master, folder, tmp_path / "first.log")
    second = subprocess.run(
        [sys.executable, "-c", _SECOND_RUN, master, kafka.bootstrap, site.instance, str(folder), str(now),
         str(_BEGIN_S), json.dumps(CONF)],
        capture_output=True, text=True, check=False, env=site.environment(QUICK), cwd=REPOSITORY,
        timeout=_LIMIT_S,
    )  # fmt: skip

    assert second.returncode == 0, second.stderr
    assert second.stderr == ""
    assert shown(window for window in read_windows(folder) if window.namespace == "ns") == sent.expected()
    counters, stopped, places, drawn = json.loads(second.stdout)
    assert not stopped
    assert counters["records.records"] + counted >= _RECORDS  # what the kill left half done came again
    assert all("penstock-modules.zip" in place for place in places)

    plain = build(read_inputs(wish), LocalEngine())
    assert _facts(from_json(json.dumps(drawn).encode())) == _facts(plain)
    here = spark.newSession()
    for setting, value in SMALL_SETTINGS.items():
        here.conf.set(setting, value)
    assert _facts(run(here, wish, lambda _: (LocalEngine(), ""), small=True)) == _facts(plain)
    capsys.readouterr()
    monkeypatch.setattr("app.operations.topology.reading.STALE_S", 2 * _LIMIT_S)  # the cluster had this long to start
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    begin = datetime.fromtimestamp(_BEGIN_S, UTC).isoformat()
    arguments = ["topology", "--traffic", "windows", "--folder", str(folder), "--since", begin, "-o", "json"]
    cli(arguments, standalone_mode=False)
    _check_edges(from_json(capsys.readouterr().out.encode()), sent)


def _world(kafka: EmbeddedKafka, name: str) -> tuple[StoredInstallation, Sent]:
    """Fills Kafka: a channel whose events are all known, other channels with faults, and a worker's current reports."""
    site = StoredInstallation.make(kafka.bootstrap, name)
    site.subscribe("sub")
    sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
    sent.make_traffic_topic()
    sent.records(site.topic, _RECORDS, _BEGIN_S, 1800)
    sent.deltas("w", ("ns", "ch"), range(_BEGIN_S, _BEGIN_S + 600, 6))
    publish(kafka.bootstrap, site.instance, faulty())
    deltas(kafka.bootstrap, site.instance, faulty(), ago_s=90)
    status(kafka.bootstrap, site.instance, faulty())
    return site, sent


def _killed(site: StoredInstallation, master: str, folder: Path, log: Path) -> int:
    """Starts the job as users do, and kills it when one of three batches is in the tables. Returns the records of that
    batch."""
    arguments = ["job", "traffic", "--master", master, *_CONF_OPTIONS, "--batch", "1000"]
    with log.open("wb") as output:
        first = subprocess.Popen(
            site.command(*arguments, "--folder", str(folder)),
            stdout=output, stderr=output, env=site.environment(QUICK), cwd=REPOSITORY,
        )  # fmt: skip
    try:
        done = folder / "commits"
        wait_until("a batch is in the tables", lambda: any(done.glob("*.json")) or first.poll() is not None, _LIMIT_S)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert first.returncode == -signal.SIGKILL, log.read_text()
    counted = sum(window.counts.events for window in read_windows(folder) if window.kind == "stored")
    assert 0 < counted < _RECORDS
    return counted


def _facts(topology: Topology) -> dict[str, Any]:
    """The fields of a topology, without how it was made."""
    return {name: getattr(topology, name) for name in ("tier", "window", "vertices", "edges", "findings", "rankings")}


def _check_edges(topology: Topology, sent: Sent) -> None:
    """Compares edges with plain sums of what was sent and settled, over the span of the tables."""
    assert topology.tier.value == "windows"
    expected, edges = sent.expected(), {edge.id: edge for edge in topology.edges}
    for source in {key[6] for key, _, _ in expected if key[1] == "stored"}:
        events = sum(sums["events"] for key, sums, _ in expected if key[1] == "stored" and key[6] == source)
        assert edges[f"source:{source} publishes channel:ns/ch"].events == events
    settled = [(sums, latency) for key, sums, latency in expected if key[1] == "settled"]
    merged: latency_sketch.LatencySketch = {}
    for _, latency in settled:
        latency_sketch.merge(merged, latency)
    delivers = edges["subscription:ns/sub delivers uri:http://127.0.0.1:1/"]
    delivered = sum(sums["delivered"] for sums, _ in settled)
    assert delivers.events == delivered
    assert delivers.rate == round(delivered / topology.window.seconds, 6)
    assert delivers.latency_p99_s == latency_sketch.quantile(merged, 0.99)
