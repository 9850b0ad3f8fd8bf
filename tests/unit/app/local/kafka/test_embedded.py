"""The embedded Kafka's pure parts and its refusals; the broker itself runs in tests/integration."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import pytest

from app.local.kafka import jars, maven, ports, toolchain
from app.local.kafka.config import Cluster, Node, java_arguments, new_cluster_id, server_properties
from app.local.kafka.jar_sets import KAFKA, SPARK, JarSet
from app.local.kafka.locks import locked
from app.local.kafka.processes import is_running, start_time, stop_process
from app.local.kafka.record import Running, read_record, record_file, write_record
from knative.errors import NotReadyError, PenstockError


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_java_major(text: str, major: int | None) -> None:
    assert toolchain.java_major(text) == major


def _program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_missing_programs_are_named_with_a_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PenstockError, match=r"no `java`.*Install a JDK 17"):
        toolchain.find_java()
    with pytest.raises(PenstockError, match=r"no `mvn`.*Install Maven"):
        toolchain.find_maven()
    _program(tmp_path, "java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(PenstockError, match=r"Java 17 or newer, and .* is 11"):
        toolchain.find_java()


def _settings(cluster: Cluster, node: Node) -> dict[str, str]:
    text = server_properties(cluster, node, Path("/data/storage"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_broker_listens_on_loopback_only() -> None:
    node = Node(1, 9092, 20001)
    settings = _settings(Cluster(new_cluster_id(), (node,)), node)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:20001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:20001"
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["group.initial.rebalance.delay.ms"] == "0"
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {"1"}


def test_three_nodes_keep_two_copies_in_sync() -> None:
    nodes = tuple(Node(n, 9090 + n, 20000 + n) for n in (1, 2, 3))
    cluster = Cluster(new_cluster_id(), nodes)
    settings = _settings(cluster, nodes[1])
    assert cluster.bootstrap == "127.0.0.1:9091,127.0.0.1:9092,127.0.0.1:9093"
    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"].count("@") == 3
    assert settings["min.insync.replicas"] == "2"
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {"3"}


def test_cluster_ids_look_like_kafkas_own() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", new_cluster_id()) for _ in range(200))


def test_java_arguments_end_with_the_class_path() -> None:
    assert java_arguments(Path("/l"), Path("/c"), Path("/b.log"), "1g")[-2:] == ["-cp", "/l/*"]


@pytest.mark.parametrize("jar_set", [KAFKA, SPARK], ids=lambda one: one.owner)
def test_every_version_is_pinned_and_every_jar_recorded(jar_set: JarSet) -> None:
    """The list of checksums belongs to the pom: the jars it names are in it."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(jar_set.pom).getroot()
    properties = {one.tag.rpartition("}")[2]: one.text or "" for one in pom.findall("m:properties/*", space)}
    recorded = jars.read_manifest(jar_set.manifest.read_text())
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in recorded.values())
    for one in pom.findall(".//m:dependency", space):
        written = one.findtext("m:version", "", space)
        version = properties.get(written.strip("${}"), written)
        assert re.fullmatch(r"\d+(\.\d+)+", version)
        assert f"{one.findtext('m:artifactId', '', space)}-{version}.jar" in recorded
    assert re.fullmatch(r"\d+(\.\d+)+", pom.findtext(".//m:plugin/m:version", "", space))


def test_kafka_has_a_place_to_log_to() -> None:
    assert any(name.startswith("log4j-slf4j-impl") for name in jars.read_manifest(KAFKA.manifest.read_text()))


def test_sparks_jars_are_those_of_the_wheel() -> None:
    assert f"spark-sql-kafka-0-10_2.13-{metadata.version('pyspark')}.jar" in SPARK.manifest.read_text()


def test_jars_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"a")
    (tmp_path / "b.jar").write_bytes(b"b")
    right = jars.read_manifest(
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.jar\n"
        "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d *b.jar\n"
    )
    jars.check_jars(tmp_path, right)
    with pytest.raises(PenstockError, match=r"another checksum than recorded: a\.jar"):
        jars.check_jars(tmp_path, {**right, "a.jar": "0" * 64})
    with pytest.raises(PenstockError, match=r"missing: c\.jar"):
        jars.check_jars(tmp_path, {**right, "c.jar": "0" * 64})
    with pytest.raises(PenstockError, match=r"not expected: b\.jar"):
        jars.check_jars(tmp_path, {"a.jar": right["a.jar"]})


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[INFO] Downloaded from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.jar (25 kB at 1.6 MB/s)", "a-b-1.0.jar"),
        ("[INFO] Copying kafka_2.13-4.1.1.jar to /x/libs/kafka_2.13-4.1.1.jar", "kafka_2.13-4.1.1.jar"),
        ("[INFO] Downloading from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.jar", None),
        ("[INFO] Downloaded from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.pom (1 kB at 1 kB/s)", None),
    ],
)
def test_progress_lines(line: str, name: str | None) -> None:
    assert maven.jar_name(line) == name


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[ERROR] Could not transfer artifact x: Unknown host repo", "Maven Central cannot be reached.*network"),
        ("[ERROR] x: No space left on device", "disk is full.*Free some space"),
        ("[ERROR] The goal is unknown", "could not bring.*: The goal is unknown"),
    ],
)
def test_failures_of_maven_become_sentences(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Maven that fails with this line: one sentence, nothing left in place, its words kept."""
    java = shutil.which("java")
    assert java is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    _program(tmp_path / "bin", "mvn", f"echo '{line}'; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    root = tmp_path / "kafka"
    with pytest.raises(PenstockError, match=f"{says}.*maven.log"):
        jars.ensure_jars(root)
    assert line in (root / "maven.log").read_text()
    assert {path.name for path in root.iterdir()} == {"libs.lock", "maven.log"}


def test_a_maven_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = shutil.which("java")
    assert java is not None
    (tmp_path / "java").symlink_to(java)
    _program(tmp_path, "mvn", "exec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReadyError, match="did not deliver"):
        maven.copy_jars(KAFKA, tmp_path, lambda _name: None, 0.2, tmp_path / "log")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="cannot be stored under"):
        jars.ensure_jars(tmp_path / "file" / "kafka")


def test_a_lock_has_one_owner_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, 1, "is busy"),
        pytest.raises(NotReadyError, match=r"Another process is busy.*lock"),
        locked(path, 0, "is busy"),
    ):
        pass
    with locked(path, 0, "is busy"):
        assert path.exists()


def test_ports() -> None:
    port = ports.free_port()
    assert ports.is_free(port)
    assert not ports.is_open(port)
    with socket.create_server((ports.LOOPBACK, port)):
        assert not ports.is_free(port)
        assert ports.is_open(port)


def test_a_record_is_believed_only_with_its_start_time(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    mine = start_time(os.getpid())
    assert mine is not None
    running = Running(os.getpid(), mine, 9092, attached=True)
    write_record(tmp_path, running)
    assert read_record(tmp_path) == running
    write_record(tmp_path, Running(os.getpid(), "another boot:1", 9092, attached=True))
    assert read_record(tmp_path) is None
    record_file(tmp_path).write_text("{}")
    assert read_record(tmp_path) is None


def test_only_the_recorded_process_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        started = start_time(process.pid)
        assert started is not None
        assert stop_process(process.pid, "another boot:1", 1)  # it is somebody else's: not touched
        assert process.poll() is None
        assert stop_process(process.pid, started, 10)
        assert not is_running(process.pid, started)  # a zombie until it is waited for
        assert process.wait() == -15
