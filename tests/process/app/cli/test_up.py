"""`penstock up` as a process: what it rejects before anything starts, and its error without a Kafka."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.kafka.locks import locked
from app.local.packaged import example
from app.local.quickstart import place_quickstart
from tests.support.processes import free_port, penstock, run


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PENSTOCK_HTTP_PORT", "{taken}", "Port {taken} on 127.0.0.1 (for events)"),
        ("PENSTOCK_ADMIN_PORT", "{taken}", "Port {taken} on 127.0.0.1 (for metrics)"),
        ("PENSTOCK_HTTP_PORT", "abc", "PENSTOCK_HTTP_PORT='abc' from the environment is not valid"),
    ],
)
def test_up_obeys_the_settings_of_the_ports(
    name: str, value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([free_port() for _ in range(2)])
    monkeypatch.setenv("PENSTOCK_HTTP_PORT", str(next(free)))
    monkeypatch.setenv("PENSTOCK_ADMIN_PORT", str(next(free)))
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        monkeypatch.setenv(name, value.format(taken=taken))
        places = ["--home", str(tmp_path), "--data", str(tmp_path / "kafka")]
        done = penstock("up", "--subscriber-port", "0", *places)
    assert says.format(taken=taken) in done.stderr
    assert "Stopped." not in done.stderr
    assert done.returncode == (2 if value == "abc" else 1)


def test_kafka_without_a_port_is_rejected_before_anything_starts() -> None:
    done = penstock("up", "--kafka", "127.0.0.1")
    assert done.returncode == 2
    assert "PENSTOCK_KAFKA='127.0.0.1' from the command line" in done.stderr


def _up(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`penstock up` on a Kafka that does not answer."""
    ports = [part for name in ("--http-port", "--admin-port") for part in (name, str(free_port()))]
    command = [sys.executable, "-m", "app.cli", "up", "--kafka", "127.0.0.1:1", "--home", str(folder), *ports]
    env = {**os.environ, "PENSTOCK_KAFKA_WAIT_S": "1", **variables}
    return run([*command, "--subscriber-port", "0", *options], env, folder=folder)


def test_kafka_that_does_not_answer_is_reported_once_and_is_not_ready(tmp_path: Path) -> None:
    done = _up(tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("Kafka at 127.0.0.1:1 did not answer within 1 s") == 1
    assert "The worker exited (exit code 3). Its log is " in done.stderr


def test_second_up_in_a_home_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """With a port of its own for the subscriber, it would send the events of the first one there."""
    place_quickstart(example("quickstart"), tmp_path / "quickstart", 8090)
    subscriptions = tmp_path / "quickstart" / "subscriptions.yaml"
    before = subscriptions.read_bytes()
    with locked(tmp_path / "lock", 0, "runs here"):
        done = _up(tmp_path, "--subscriber-port", str(free_port()))
    assert done.returncode == 2
    assert done.stderr.startswith(f"Another command runs in {tmp_path}. Stop it (Ctrl-C in its terminal).")
    assert subscriptions.read_bytes() == before
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("subscriber", [False, True], ids=["alone", "with a subscriber"])
def test_home_that_cannot_be_created_is_reported_before_kafka_starts(tmp_path: Path, subscriber: bool) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home"
    ports = [part for name in ("--http-port", "--admin-port", "--kafka-port") for part in (name, str(free_port()))]
    places = ["--home", str(home), "--data", str(tmp_path / "kafka")]
    done = penstock("up", *places, *ports, "--subscriber-port", str(free_port() if subscriber else 0))
    assert done.returncode == 1
    assert f"cannot be written to {home}" in done.stderr
    assert "Not a directory" in done.stderr
    assert "--home DIR" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Starting Kafka" not in done.stderr
    assert not (tmp_path / "kafka").exists()


def test_up_takes_the_resources_that_the_settings_name(tmp_path: Path) -> None:
    done = _up(tmp_path, PENSTOCK_RESOURCES="file:mine")
    assert done.returncode == 2
    assert "There is no directory mine." in done.stderr
    given = _up(tmp_path, "--resources", "others", PENSTOCK_RESOURCES="file:mine")
    assert "There is no directory others." in given.stderr
