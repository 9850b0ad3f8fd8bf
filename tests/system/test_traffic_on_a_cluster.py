"""`penstock job traffic` on a master and two workers: killed in the middle and started again, it counts the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from analytics.traffic.read import read_windows
from app.embedded import EmbeddedKafka
from tests.integration.looking import REPOSITORY, Looked
from tests.processes import wait_until
from tests.spark_cluster import cluster
from tests.traffic import Sent, shown

pytestmark = pytest.mark.system

_LIMIT_S = 900.0  #: a minute where there is nothing else to do
_BEGIN_S = int(time.time()) // 60 * 60 - 3600  # Kafka drops what is older than its retention
_SECOND_RUN = """
import json, sys
from dataclasses import replace
from pathlib import Path
from analytics.session import spark_session
from analytics.traffic.job import TrafficJob
from app.spark import jar_places, spark_options
from app.traffic_job import plan_traffic

def ask(rows):
    import knative.sketch
    yield knative.sketch.__file__

master, kafka, folder = sys.argv[1:]
plan = plan_traffic({"bootstrap.servers": kafka}, Path(folder)).traffic
conf = {"spark.executor.memory": "512m"}
with spark_session(spark_options("second", master, jars=jar_places(), conf=conf)) as spark:
    summary = TrafficJob(spark, replace(plan, records_max=3000)).run()
    places = spark.sparkContext.parallelize(range(2), 2).mapPartitions(ask).collect()
print(json.dumps([summary.counters, summary.stopped, places]))
"""


def test_a_killed_job_counts_the_same(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> None:
    looked = Looked.make(kafka.bootstrap, topic_name())
    sent = Sent(kafka.bootstrap, looked.instance, {looked.topic: ("ns", "ch")})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(sent.traffic_topic, 2, 1)])[sent.traffic_topic].result(30)
    sent.records(looked.topic, 6000, _BEGIN_S, 1800)
    sent.deltas("w", ("ns", "ch"), range(_BEGIN_S, _BEGIN_S + 600, 6))
    folder = tmp_path / "traffic"
    with cluster(tmp_path) as master:
        arguments = ["job", "traffic", "--master", master, "--conf", "spark.executor.memory=512m", "--batch", "1000"]
        arguments += ["--folder", str(folder), "-o", "json"]
        with (tmp_path / "first.log").open("wb") as log:
            first = subprocess.Popen(
                looked.command(*arguments), stdout=log, stderr=log, env=looked.environment(), cwd=REPOSITORY
            )
        try:
            done = folder / "records" / "parts"
            wait_until(
                "a batch is in the tables", lambda: any(done.glob("batch=*")) or first.poll() is not None, _LIMIT_S
            )
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
        assert first.returncode == -signal.SIGKILL, (tmp_path / "first.log").read_text()
        counted = sum(one.events for one in read_windows(folder) if one.kind == "stored")
        assert 0 < counted < 6000

        second = subprocess.run(
            [sys.executable, "-c", _SECOND_RUN, master, kafka.bootstrap, str(folder)], capture_output=True, text=True,
            check=False, env=looked.environment(), cwd=REPOSITORY, timeout=_LIMIT_S,
        )  # fmt: skip

    assert second.returncode == 0, second.stderr
    assert second.stderr == ""
    assert shown(read_windows(folder)) == sent.expected()
    counters, stopped, places = json.loads(second.stdout)
    assert not stopped
    assert counters["records.records"] + counted >= 6000  # what the kill left half done came again
    assert all("penstock-modules.zip" in place for place in places)
