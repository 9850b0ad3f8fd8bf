"""Spark's start without Spark: options, jars, what the JVM says at its end and what is shown, our modules as a zip."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from analytics.spark.jvm_log import Sieve, explain_run, explain_start
from analytics.spark.kafka_source import batch_options
from analytics.spark.session import (
    CLUSTER_PARTITIONS,
    LOCAL_PARTITIONS,
    SMALL_SETTINGS,
    SparkOptions,
    find_jar,
    missing_connector,
    options_problem,
    spark_jars,
    spark_settings,
    sql_settings,
)
from app.cli.options.spark import JobOptions
from app.local.kafka.jar_sets import SPARK
from app.local.kafka.jars import jar_names, libs_folder
from app.operations.spark_jars import jar_places
from knative.errors import NotReadyError, PenstockError, UsageError


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SparkOptions(master="local[2]", remote="sc://h:1"), "--master and --remote"),
        (SparkOptions(remote="http://h"), "not a valid address of Spark Connect"),
        (SparkOptions(master="h:7077"), "not a valid address of a Spark master"),
    ],
)
def test_places_that_cannot_be(options: SparkOptions, says: str) -> None:
    problem = options_problem(options)

    assert problem is not None
    assert says in problem[0]


@pytest.mark.parametrize("master", [None, "local", "local[4]", "spark://a:1,b:2", "yarn", "k8s://https://h:443"])
def test_places_that_can_be(master: str | None) -> None:
    assert options_problem(SparkOptions(master=master)) is None


def test_little_data_is_not_compiled_for() -> None:
    """But what was asked for by name wins."""
    wish = {"spark.sql.shuffle.partitions": "7"}
    settings = spark_settings(SparkOptions(small=True, settings=wish))

    assert settings["spark.driver.extraJavaOptions"].endswith("-XX:TieredStopAtLevel=1")
    assert {**settings, **SMALL_SETTINGS, **wish} == settings
    assert sql_settings(SparkOptions(small=True, settings=wish)).items() >= wish.items(), "set again in the session"
    assert "TieredStopAtLevel" not in str(spark_settings(SparkOptions()))


def test_session_listens_on_loopback_unless_a_cluster_must_reach_it() -> None:
    mine = spark_settings(SparkOptions())
    far = spark_settings(SparkOptions(master="spark://h:1", driver_host="10.0.0.5", settings={"spark.x": "y"}))

    assert (mine["spark.driver.host"], mine["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert (far["spark.driver.host"], far["spark.driver.bindAddress"], far["spark.x"]) == ("10.0.0.5", "0.0.0.0", "y")
    assert mine["spark.ui.enabled"] == "false"


def test_jars_are_found_by_folder_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("spark-sql-kafka-0-10_2.13-4.0.0.jar", "graphframes-spark4_2.13-0.9.jar", "notes.txt"):
        (tmp_path / "a" / name).write_text("")
    graph = find_jar([tmp_path / "a"], "graphframes-")

    assert graph is not None
    assert [jar.name for jar in spark_jars([tmp_path / "a", graph])] == [
        "graphframes-spark4_2.13-0.9.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
    ]
    assert "kafka-clients-" in missing_connector([tmp_path / "a"])
    with pytest.raises(UsageError, match="There are no jars at"):
        spark_jars([tmp_path / "b"])


def test_exchange_has_a_part_for_each_core_and_on_a_cluster_as_many_as_spark_takes() -> None:
    def parts(**options: Any) -> int:
        return int(spark_settings(SparkOptions(**options))["spark.sql.shuffle.partitions"])

    assert parts(master="local[16]") == parts(master="local[16,2]") == 16
    assert parts(master="local") == parts(master="local[2]") == LOCAL_PARTITIONS
    assert parts() == max(LOCAL_PARTITIONS, os.cpu_count() or 1)
    assert parts(master="spark://h:7077") == parts(master="yarn") == CLUSTER_PARTITIONS
    assert parts(master="yarn", shuffle_partitions=3) == 3


def test_full_heap_ends_the_jvm_and_a_walked_graph_one_that_is_nearly_full() -> None:
    plain, walked = (
        spark_settings(SparkOptions(rounds=rounds))["spark.driver.extraJavaOptions"] for rounds in (False, True)
    )

    assert "-XX:+ExitOnOutOfMemoryError" in plain
    assert "-XX:+UseSerialGC" in plain
    assert "-XX:GCTimeLimit=80" in walked
    assert "SerialGC" not in walked


@pytest.mark.parametrize(
    ("problem", "lines", "says"),
    [
        (
            Py4JNetworkError("Answer from Java side is empty"),
            ["Terminating due to java.lang.OutOfMemoryError"],
            "memory",
        ),
        (ConnectionRefusedError(111, "refused"), [], "Spark's process exited during the job"),
        (Py4JError("o: java.lang.OutOfMemoryError: Java heap space"), None, "Spark ran out of memory .* had 512m"),
        (
            Py4JError(": java.io.IOException: wrong\n\tat x\nCaused by: a.b.FooException: why"),
            None,
            "FooException: why",
        ),
    ],
)
def test_what_ended_a_session_is_one_sentence(problem: Exception, lines: list[str] | None, says: str) -> None:
    reported = explain_run(problem, lines, "512m")

    assert reported is not None
    assert re.search(says, str(reported))
    assert "\n" not in str(reported)


def test_what_is_not_of_spark_is_left_alone() -> None:
    assert explain_run(UsageError("wrong"), None, "1g") is None
    assert explain_run(ConnectionResetError("of another"), None, "1g") is None


def test_folder_with_the_connector_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in jar_names(SPARK):
        (tmp_path / name).write_text("")
    monkeypatch.setenv("PENSTOCK_SPARK_JARS", str(tmp_path))

    assert jar_places(root=tmp_path / "none") == [tmp_path]
    assert not libs_folder(tmp_path / "none", SPARK).exists()


def test_under_spark_submit_its_own_jars_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")

    assert jar_places() == []


@pytest.mark.parametrize(
    ("said", "says", "kind"),
    [
        ("JAVA_HOME is not set", "needs Java 17.*Install a JDK", PenstockError),
        ("Error: UnsupportedClassVersionError: x has been compiled", "the java on the PATH is older", PenstockError),
        ("All masters are unresponsive! Giving up.", "No Spark master answers at spark://h:1", NotReadyError),
        ("Could not parse Master URL: 'x'", "is not a valid address of a Spark master", PenstockError),
        ("insufficient memory for the Java Runtime", "not enough memory.*--driver-memory", PenstockError),
        ("StatusCode.UNAVAILABLE", "No Spark Connect server answers", NotReadyError),
        (
            "java.lang.OddException: the reason",
            "did not start at spark://h:1: java.lang.OddException: the reason",
            PenstockError,
        ),
    ],
)
def test_why_spark_did_not_start(said: str, says: str, kind: type[PenstockError]) -> None:
    with pytest.raises(kind, match=says):
        raise explain_start(RuntimeError("[JAVA_GATEWAY_EXITED] ..."), ["something", said], "spark://h:1")


def test_noise_is_kept_from_the_terminal_and_a_progress_bar_is_not() -> None:
    sieve = Sieve()
    output = sieve.pass_on(b"WARNING: Using incubator mod") + sieve.pass_on(b"ules: jdk.incubator.vector\nreal tro")
    output += sieve.pass_on(b"uble\n[Stage 0:==>  ]\r[Stage")

    assert output == b"real trouble\n[Stage 0:==>  ]\r"
    assert sieve.take_lines() == [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "real trouble",
        "[Stage 0:==>  ]",
    ]
    assert sieve.take_lines() == []
    trace = (
        b"java.util.concurrent.RejectedExecutionException: Task\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    )
    sieve = Sieve()
    assert sieve.pass_on(b"JAVA_HOME is not set\n" + trace + b"\t... 8 more\n") == b""
    assert len(sieve.take_lines()) == 4


def test_read_has_the_bounds_that_are_asked_for() -> None:
    batch = batch_options({"bootstrap.servers": "b:1"}, ["x", "y"], 1.0, 2.0)

    assert (batch["subscribe"], batch["failOnDataLoss"], batch["includeHeaders"]) == ("x,y", "false", "true")
    assert (batch["startingTimestamp"], batch["endingTimestamp"]) == ("1000", "2000")
    whole = batch_options({"bootstrap.servers": "b:1"}, ["x"])
    assert (whole["startingOffsets"], whole["endingOffsets"]) == ("earliest", "latest")


def test_settings_of_spark_on_the_command_line() -> None:
    assert JobOptions(conf=("spark.a=b=c",)).settings() == {"spark.a": "b=c"}
    for wrong in ("spark.a", "a=b"):
        with pytest.raises(UsageError, match=r"Write spark\.NAME=VALUE"):
            JobOptions(conf=(wrong,)).settings()
