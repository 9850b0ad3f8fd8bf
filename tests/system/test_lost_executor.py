"""The traffic job on a cluster whose executors are killed while it runs: it costs work, and no count."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from analytics.traffic.dataset import Dataset
from analytics.traffic.read import read_windows
from app.local.kafka import EmbeddedKafka
from tests.integration.cli_fixture import StoredInstallation
from tests.support.proc import tree
from tests.support.processes import REPOSITORY, wait_until
from tests.support.traffic import Sent, shown
from tests.system.spark_cluster import CONF, QUICK, cluster

pytestmark = pytest.mark.system

_LIMIT_S = 900.0


def _executors() -> list[int]:
    """Those of clusters that this process has started."""
    pids = []
    for pid in tree(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if b"CoarseGrainedExecutorBackend" in command:
            pids.append(pid)
    return pids


def test_lost_executor_costs_no_count(kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.subscribe("sub")
    sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
    sent.make_traffic_topic()
    begin = int(time.time()) // 60 * 60 - 1800
    sent.records(site.topic, 3000, begin, 1200)
    sent.deltas("w", ("ns", "ch"), range(begin, begin + 600, 6))
    folder, log = tmp_path / "traffic", tmp_path / "job.log"
    conf = [text for name, value in CONF.items() for text in ("--conf", f"{name}={value}")]
    with cluster(tmp_path) as master, log.open("wb") as output:
        command = site.command("job", "traffic", "--master", master, *conf, "--batch", "1000", "--folder", str(folder))
        with subprocess.Popen(
            command, stdout=output, stderr=output, env=site.environment(QUICK), cwd=REPOSITORY
        ) as job:
            try:
                for run in (1, 2):  # in the batch after each
                    wait_until("a run is committed", partial(_reached, folder, run, job), _LIMIT_S)
                    killed = _executors()
                    assert killed or job.poll() is not None, log.read_text()
                    for pid in killed[:1]:
                        os.kill(pid, signal.SIGKILL)
                assert job.wait(_LIMIT_S) == 0, log.read_text()
            finally:
                job.kill()
    assert shown(read_windows(folder)) == sent.expected()


def _reached(folder: Path, run: int, job: subprocess.Popen[bytes]) -> bool:
    last = Dataset(folder).last()
    return (last is not None and last.run >= run) or job.poll() is not None
