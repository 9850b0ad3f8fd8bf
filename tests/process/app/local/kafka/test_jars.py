"""Maven as a process: what it says becomes progress and sentences."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.local.kafka import jars, maven
from app.local.kafka.jar_sets import KAFKA, JarSet
from knative.errors import NotReadyError, PenstockError
from tests.support.processes import shell_program


def test_jars_from_mavens_own_store_arrive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven says nothing of a jar that it need not download; the last report is that all are there."""
    java = shutil.which("java")
    assert java is not None
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").symlink_to(java)
    maven = programs / "mvn"
    maven.write_text('#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) : >"${word#*=}/a.jar";; esac; done\n')
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    one = JarSet("a test", "a test's jars", tmp_path / "one", 1)
    one.folder.mkdir()
    one.pom.write_text("<project/>")
    one.manifest.write_text("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a.jar\n")
    reported: list[tuple[int, int]] = []
    libs = jars.ensure_jars(
        tmp_path / "kafka", lambda arrived, expected: reported.append((arrived, expected)), jars=one
    )
    assert [jar.name for jar in libs.glob("*.jar")] == ["a.jar"]
    assert reported == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[ERROR] Could not transfer artifact x: Unknown host repo", "Maven Central cannot be reached.*network"),
        ("[ERROR] x: No space left on device", "disk is full.*Free some space"),
        ("[ERROR] The goal is unknown", "could not download.*: The goal is unknown"),
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
    shell_program(tmp_path / "bin", "mvn", f"echo '{line}'; exit 1")
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
    shell_program(tmp_path, "mvn", "exec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReadyError, match="did not deliver"):
        maven.copy_jars(KAFKA, tmp_path, lambda _name: None, 0.2, tmp_path / "log")
