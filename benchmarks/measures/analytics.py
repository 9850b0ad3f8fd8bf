"""The data pipeline: the traffic job, the topology and its page, the census, and the shell command.

    traffic      a topic is counted by the job; figures of the batches after the first, when Spark is warm
    topology     100,000 edges: facts, walks, findings, page, JSON
    report       the page of 5,000 vertices in headless Chromium, until it takes clicks and keys
    census       lines -> Spark -> chunks in a topic, beside a plain loop; totals that differ are a row
    shell        `penstock topology` on the quickstart, as typed; Spark must not even be imported

Small enough for one run of everything; the programs `benchmarks.analytics_*` measure any size. Only Penstock has these,
so there is no comparison.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks import analytics_census, analytics_report, analytics_traffic
from benchmarks.figures import HIGHER, Row
from benchmarks.implementation import OWN, Implementation, NotOffered
from benchmarks.implementations.penstock.resources import publish
from benchmarks.lab import LIMIT_S, Lab
from benchmarks.measures.measure import Measure, Values
from tests.support.chromium import Chromium
from tests.support.processes import REPOSITORY, Failed

TRAFFIC_RATE = Row("traffic job, warm, records of 1 KiB: rate", "records/s", 35_000, HIGHER, 0)
TRAFFIC_CPU = Row("traffic job, warm: CPU per record", "us", 45)
TRAFFIC_MEMORY = Row("traffic job: RSS of Python and the JVM", "MB", None, digits=0)
TOPOLOGY = Row("topology of 100,000 edges, local engine, with page", "s", 10)
TOPOLOGY_MEMORY = Row("topology of 100,000 edges: RSS", "MB", 600, digits=0)
PAGE = Row("report page of 5,000 vertices: ready", "s", 2, digits=2)
CENSUS = Row("census: read by Spark, with its start", "s")
CENSUS_LOOP = Row("census: a plain Python loop", "s", digits=2)
CENSUS_WRONG = Row("census: totals of the chunks that differ", "", 0, digits=0)
SHELL = Row("penstock topology on the quickstart, from the shell", "s", 2, digits=2)

_BATCH, _BATCHES, _PARTITIONS = 150_000, 3, 10
_EDGES, _VERTICES, _LINES, _RUNS = 100_000, 5_000, 100_000, 3
_RUN_LIMIT_S = 300.0
_QUICKSTART = REPOSITORY / "examples" / "quickstart"
_PUBLISHED = (
    ("KafkaChannel", "default.quickstart", "ContractPublished"),
    ("Subscription", "default.good", "AddedToChannel"),
    ("Subscription", "default.picky", "AddedToChannel"),
)


def own(implementation: Implementation, what: str = "analytics") -> None:
    """Raise NotOffered unless it is Penstock itself."""
    if implementation.folder.resolve() != OWN.resolve():
        raise NotOffered(what)


def run_program(*command: str, env: Mapping[str, str] | None = None) -> str:
    """Runs a program of ours to its end; returns what it printed. Raises Failed."""
    try:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, cwd=REPOSITORY, timeout=_RUN_LIMIT_S,
            env={**os.environ, **(env or {})}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command[:3])} did not end within {_RUN_LIMIT_S:.0f} s") from error
    if done.returncode:
        raise Failed(f"{' '.join(command[:3])} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def last_line(text: str) -> dict[str, Any]:
    """Returns the JSON object in the last line."""
    figures: dict[str, Any] = json.loads(text.splitlines()[-1])
    return figures


@contextmanager
def _traffic_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation)
    topic, batch = f"bench.traffic-{uuid.uuid4().hex[:6]}", lab.events(_BATCH)
    admin = AdminClient({"bootstrap.servers": lab.kafka, "log_level": 2})
    analytics_traffic.fill(lab.kafka, batch * _BATCHES, _PARTITIONS, topic)

    def once() -> Values:
        folder = lab.new_folder("traffic") / "tables"
        command = ["-m", "benchmarks.analytics_traffic", "--batch", str(batch), "--topic", topic]
        figures = last_line(run_program(*command, "--job", lab.kafka, str(folder)))
        if figures["records"] != batch * _BATCHES:
            raise Failed(f"{figures['records']} records were counted of {batch * _BATCHES}")
        return {
            TRAFFIC_RATE: figures["warm_per_s"],
            TRAFFIC_CPU: figures["warm_us"],
            TRAFFIC_MEMORY: max(figures["rss_mb"]) * 2**20 / 1e6,
        }

    try:
        yield once
    finally:
        admin.delete_topics([topic])[topic].result(LIMIT_S)


@contextmanager
def _topology_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation)

    def once() -> Values:
        figures = last_line(
            run_program("-m", "benchmarks.analytics_topology", "--here", "--edges", str(lab.events(_EDGES)))
        )
        return {TOPOLOGY: figures["total_s"], TOPOLOGY_MEMORY: figures["peak_mib"] * 2**20 / 1e6}

    yield once


@contextmanager
def _report_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation)
    folder = lab.new_folder("report")
    with Chromium() as browser:

        def once() -> Values:
            figures = analytics_report.measure(browser, folder, lab.events(_VERTICES), 1)
            return {PAGE: figures["ready_ms"]["median"] / 1000}

        yield once


@contextmanager
def _census_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation)

    def once() -> Values:
        figures = analytics_census.measure(lab.new_folder("census"), lab.events(_LINES), "local[2]", lab.kafka)
        return {CENSUS: figures["read_s"], CENSUS_LOOP: figures["loop_s"], CENSUS_WRONG: 0 if figures["equal"] else 1}

    yield once


@contextmanager
def _shell_scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation)
    folder, instance = lab.new_folder("shell"), f"i-{uuid.uuid4().hex[:8]}"
    env = {"PENSTOCK_INSTANCE": instance, "PENSTOCK_STATE_DIR": str(folder / "state")}
    publish(lab.kafka, folder, _QUICKSTART, env, _PUBLISHED)
    command = ["-m", "app.cli", "topology", "--engine", "local", "--kafka", lab.kafka]

    def once() -> Values:
        took = []
        for number in range(_RUNS):
            began_s = time.monotonic()
            run_program(*command, "--out", str(folder / f"report-{number}"), env=env)
            took.append(time.monotonic() - began_s)
        loaded = run_program("-c", _LOADED.format(arguments=command[2:]), env=env)
        if "pyspark" in loaded:
            raise Failed("penstock topology --engine local imports pyspark")
        return {SHELL: statistics.median(took)}

    yield once


_LOADED = """
import sys
sys.argv = ["penstock", *{arguments}]
from app.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("pyspark" if "pyspark" in sys.modules else "")
"""


MEASURES = (
    Measure(
        "analytics-traffic",
        "the traffic job counts a topic by Spark",
        (TRAFFIC_RATE, TRAFFIC_CPU, TRAFFIC_MEMORY),
        _traffic_scene,
        once=True,
    ),
    Measure(
        "analytics-topology",
        "a made-up system of 100,000 edges, to its findings and page",
        (TOPOLOGY, TOPOLOGY_MEMORY),
        _topology_scene,
        once=True,
    ),
    Measure("analytics-report", "the page of 5,000 vertices in headless Chromium", (PAGE,), _report_scene, once=True),
    Measure(
        "analytics-census",
        "100,000 census lines into a topic by Spark, beside a plain loop",
        (CENSUS, CENSUS_LOOP, CENSUS_WRONG),
        _census_scene,
        once=True,
    ),
    Measure("analytics-shell", "penstock topology, three times from the shell", (SHELL,), _shell_scene, once=True),
)
