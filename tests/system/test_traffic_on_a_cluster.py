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
from tests.integration.looking import Looked
from tests.processes import wait_until
from tests.spark_cluster import cluster
from tests.traffic import Sent, shown

pytestmark = pytest.mark.system

_LIMIT_S = 400.0
_BEGIN_S = int(time.time()) // 60 * 60 - 3600  # Kafka drops what is older than its retention
_WORKERS_HAVE_OUR_MODULES = """
import sys
sys.path[:] = [place for place in sys.path if place]
from analytics.session import SparkOptions, spark_session
def ask(rows):
    import knative.sketch
    yield knative.sketch.__file__
with spark_session(SparkOptions(master=sys.argv[1], settings={"spark.executor.memory": "512m"})) as spark:
    print(*set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(ask).collect()))
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
                looked.command(*arguments), stdout=log, stderr=log, env=looked.environment(), cwd=Path.cwd()
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
            looked.command(*arguments), capture_output=True, text=True, check=False, env=looked.environment(),
            timeout=_LIMIT_S,
        )  # fmt: skip

        assert second.returncode == 0, second.stderr
        assert shown(read_windows(folder)) == sent.expected()
        assert {row["tier"] for row in json.loads(second.stdout)["rows"]} == {"records", "deltas"}
        assert "WARN" not in second.stderr

        where = subprocess.run(
            [sys.executable, "-c", _WORKERS_HAVE_OUR_MODULES, master], capture_output=True, text=True, check=False,
            env={**looked.environment(), "PYTHONSAFEPATH": ""}, timeout=_LIMIT_S,
        )  # fmt: skip
        assert "penstock-modules.zip" in where.stdout, where.stderr
