"""How a Spark session ends that does not come to its end: Ctrl-C at several moments, and a heap that is full."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from app.operations.spark_jars import JARS_ROOT, jar_places
from tests.integration.cli_fixture import StoredInstallation
from tests.support.files import paths_below
from tests.support.proc import children, start_time, thread_names
from tests.support.processes import REPOSITORY, wait_until
from tests.support.traffic import Sent

pytestmark = pytest.mark.system

_LIMIT_S = 300


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    """Brought before the first command, which would say so."""
    jar_places(root=REPOSITORY / JARS_ROOT)


#: Few large values: millions of small ones fill the heap too, after minutes in which it mostly collects.
_FULL = """
from analytics.spark.session import SparkOptions, spark_session
from app.cli.output.format import print_error
from knative.errors import PenstockError
try:
    with spark_session(SparkOptions(master="local[2]", driver_memory="512m", progress=False, rounds=True)) as spark:
        rows = spark.range(2000).repartition(2)
        rows.selectExpr("collect_list(repeat(string(id), 300000)) as all").selectExpr("size(all)").collect()
except PenstockError as error:
    print_error(error)
    raise SystemExit(error.exit_code)
"""


@pytest.mark.parametrize("moment", ["the JVM starts", "the session starts", "it works"])
def test_ctrl_c_ends_it_with_one_sentence(
    kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path, moment: str
) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.subscribe("sub")
    _traffic(kafka, site)
    folder = tmp_path / "spark"
    folder.mkdir()
    command = [sys.executable, "-m", "app.cli", "job", "topology", "--master", "local[2]"]
    environment = site.environment({"SPARK_LOCAL_DIRS": str(folder), "TMPDIR": str(folder)})
    with subprocess.Popen(
        command, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        _wait_for(moment, process, folder)
        child = _child(process)
        assert child is not None
        started = start_time(child)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_LIMIT_S)

    assert (process.returncode, out, err) == (130, "", "Interrupted; no report was written.\n")
    wait_until("Spark's process has gone", lambda: start_time(child) != started, _LIMIT_S)


def test_ctrl_c_at_some_moment_ends_it_with_one_sentence(
    kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    """Another one in each run, after the start of Spark's process; where that is depends on the machine, too. A run
    that is over by then, or just then, has its whole report. Before it, while Python still loads the command, Ctrl-C
    ends it without a sentence."""
    after_s = random.uniform(2.0, 11.0)
    print(f"after {after_s:.2f} s")
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.subscribe("sub")
    command = [sys.executable, "-m", "app.cli", "job", "topology", "--master", "local[2]", "-o", "json"]
    with subprocess.Popen(
        command, env=site.environment(), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        _wait_for("the JVM starts", process, tmp_path)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_LIMIT_S)

    if process.returncode == 0:
        assert err == ""
        assert json.loads(out)
    else:
        assert (process.returncode, err) == (130, "Interrupted; no report was written.\n")


def _traffic(kafka: EmbeddedKafka, site: StoredInstallation) -> None:
    """Something that Spark has to add up."""
    sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
    sent.make_traffic_topic()
    begin = int(time.time()) - 500
    sent.deltas("w", ("ns", "ch"), range(begin, begin + 490))


def _wait_for(moment: str, process: subprocess.Popen[str], folder: Path) -> None:
    def here(what: str, holds: Callable[[], bool]) -> None:
        wait_until(what, lambda: process.poll() is not None or holds(), _LIMIT_S)
        assert process.poll() is None, process.communicate()

    here("Spark's process is there", lambda: _child(process) is not None)
    if moment != "the JVM starts":
        here("its context is being made", lambda: any("blockmgr-" in path.name for path in paths_below(folder)))
    if moment == "it works":
        here("a task runs", lambda: _has_thread(_child(process), "Executor task"))


def _child(process: subprocess.Popen[str]) -> int | None:
    """The number of Spark's process, which a script becomes."""
    return next(iter(children(process.pid)), None)


def _has_thread(number: int | None, name: str) -> bool:
    return number is not None and any(thread.startswith(name) for thread in thread_names(number).values())


def test_heap_that_runs_out_is_one_sentence_and_leaves_no_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FULL],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )

    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Spark ran out of memory (its process had 512m)."), done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())
