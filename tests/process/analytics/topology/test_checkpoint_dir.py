"""GraphFrames' rounds in a place that outlives an executor, in a Spark of its own: a session has one such place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analytics.topology.engines.graphframes import missing_jars
from app.settings import load_settings

_SCRIPT = """
import sys
import numpy as np
from analytics.spark.session import SparkOptions, spark_session
from analytics.topology.engines.graphframes import GraphFramesEngine
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import Graph
from app.operations.spark_jars import jar_places

place, jars = sys.argv[1], tuple(jar_places())
conf = {"spark.checkpoint.dir": place, "spark.ui.enabled": "false"}
options = SparkOptions("test", "local[2]", jars=jars, shuffle_partitions=2, progress=False, settings=conf)
numbers = np.random.default_rng(1)
graph = Graph.of(300, [(int(head), int(tail)) for head, tail in numbers.integers(0, 300, (260, 2))])
base = numbers.random(300)
with spark_session(options) as spark:
    engine, local = GraphFramesEngine(spark), LocalEngine()
    assert (engine.islands(graph) == local.islands(graph)).all()
    assert np.allclose(engine.influence(graph, base), local.influence(graph, base))
"""
_LIMIT_S = 400


def test_rounds_are_kept_where_the_option_says(tmp_path: Path) -> None:
    if why := missing_jars(load_settings().spark_jars):
        pytest.skip(f"NOT RUN HERE: {why}")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, tmp_path.as_uri()],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(tmp_path.rglob("part-*")), "nothing was kept there"
