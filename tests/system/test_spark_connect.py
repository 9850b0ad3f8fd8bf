"""Jobs on a Spark Connect server: a span is counted exactly, the topology is drawn, and what cannot be is said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.spark.session import spark_jars
from analytics.traffic.dataset import Dataset
from analytics.traffic.read import read_windows
from app.local.kafka import EmbeddedKafka
from app.operations.spark_jars import jar_places
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import REPOSITORY
from tests.support.traffic import Sent, shown
from tests.support.traffic_tables import write_tables
from tests.system.spark_cluster import connect_server

pytestmark = pytest.mark.system


def test_span_and_its_topology(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.subscribe("sub")
    sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
    sent.make_traffic_topic()
    begin = int(time.time()) - 600
    sent.records(site.topic, 500, begin, 590)
    sent.deltas("w", ("ns", "ch"), range(begin, begin + 590, 7))
    folder = tmp_path / "span"
    log = tmp_path / "server.log"
    with connect_server(log, spark_jars(jar_places(root=REPOSITORY / ".penstock" / "spark"))) as address:
        for more in (["--since", "1h"], []):  # a time range, and a job that continues
            arguments = ["job", "traffic", "--remote", address, *more, "--folder", str(folder)]
            counted = site.penstock(*arguments)
            assert counted.returncode == 0, counted.stderr + log.read_text()
            assert counted.stderr.startswith("585 records in ")
            assert shown(read_windows(folder)) == sent.expected()
            Dataset(folder).wipe()
        site.penstock(*arguments)

        drawn = site.penstock(
            "job", "topology", "--remote", address, "--traffic", "deltas", "--since", "1h", "-o", "json"
        )
        assert drawn.returncode == 0, drawn.stderr + log.read_text()
        assert drawn.stderr == ""
        edges = {load["id"]: load for load in json.loads(drawn.stdout)["edges"]}
        delivered = sum(sums["delivered"] for key, sums, _ in sent.expected() if key[1] == "settled")
        assert edges["subscription:ns/sub delivers uri:http://127.0.0.1:1/"]["events"] == delivered

        # As if nothing was counted for hours: no row is in the span.
        windows = [replace(window, start=window.start - 9 * 3600) for window in read_windows(folder)]
        Dataset(folder).wipe()
        write_tables(folder, windows)
        arguments = ["--traffic", "windows", "--folder", str(folder), "--since", "1h"]
        stale = site.penstock("job", "topology", "--remote", address, *arguments)
        assert "do not reach to the end of the window" in " ".join(stale.stderr.split()), stale.stderr + log.read_text()
