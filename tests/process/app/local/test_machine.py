"""What a machine lacks is one list, with the commands that install it."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

from app.local import machine
from knative.errors import PenstockError


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_version_of_java_is_read_from_its_output(text: str, major: int | None) -> None:
    assert machine.java_major(text) == major


def test_machine_with_everything_lacks_nothing() -> None:
    assert machine.missing_here() == []


def test_all_that_is_missing_is_one_list_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "venv" else find_spec(name))
    lines = machine.missing_here()
    assert "venv and ensurepip" in lines[0]
    assert lines[1] == "  Java 17 or newer, for Kafka: there is no `java` on the PATH"
    assert "  Debian, Ubuntu   sudo apt-get install python3-venv openjdk-17-jre-headless" in lines
    assert any("dnf install" in line for line in lines)
    assert any("brew install" in line for line in lines)
    assert len(machine.missing_here(java=False)) == len(lines) - 1


def test_python_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PYTHON_MIN", (99, 0))
    assert machine.missing_here()[0].startswith("  Python 99.0 or newer: ")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "there is no `java`"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is 11"),
        ("echo hello", "does not print a version"),
    ],
)
def test_java_that_cannot_run_kafka_is_an_error_with_commands(
    script: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "java").chmod(0o755)
    with pytest.raises(PenstockError, match=rf"Java 17 or newer: .*{why}.*apt-get install .*--kafka HOST:PORT"):
        machine.find_java()


def test_ports_in_use_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [server.getsockname()[1], other.getsockname()[1]]
        assert machine.busy_ports(ports) == ports
