"""A worker that cannot start says so: one sentence, an exit code, no traceback. And Faust's own commands on our app."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.kafka.ports import LOOPBACK
from tests.support import processes
from tests.support.processes import clean_environment, free_port

_NO_KAFKA = f"{LOOPBACK}:1"
_PENSTOCK = ["-m", "app.cli", "worker"]
_SEVERAL = [*_PENSTOCK, "--processes", "2"]
_FAUST = ["-m", "faust", "-A", "app", "worker", "-l", "info"]


def run(arguments: list[str], **variables: object) -> subprocess.CompletedProcess[str]:
    """One command of this Python, with only these settings."""
    ports = {"PENSTOCK_HTTP_PORT": free_port(), "PENSTOCK_ADMIN_PORT": 0, "PENSTOCK_KAFKA": _NO_KAFKA}
    given = {name: str(value) for name, value in (ports | variables).items()}
    return processes.run([sys.executable, *arguments], clean_environment() | given)


def sentences(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What it complained of."""
    lines = done.stderr.splitlines()
    return [line for line in lines if '"level":"error"' in line or '"level":"critical"' in line]


@pytest.mark.parametrize("command", [_PENSTOCK, _FAUST, _SEVERAL], ids=["penstock", "faust", "several"])
@pytest.mark.parametrize(("name", "address"), [("PENSTOCK_HTTP_PORT", "0.0.0.0"), ("PENSTOCK_ADMIN_PORT", "127.0.0.1")])
def test_port_in_use_is_one_sentence_before_kafka_is_waited_for(command: list[str], name: str, address: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        done = run(command, **{name: port})
    assert done.returncode == 1
    (sentence,) = sentences(done)
    assert f"Cannot listen on {address}:{port}: address already in use. Choose another" in sentence
    assert "Traceback" not in done.stdout + done.stderr
    assert "Kafka" not in done.stderr


def test_port_that_is_taken_meanwhile_is_the_same_sentence() -> None:
    code = (
        "import asyncio, socket\n"
        "from app.compose import build\n"
        "hub = build()\n"
        "async def taken(_web):\n"
        "    hub.other = socket.create_server(('0.0.0.0', hub.conf.web_port))\n"
        "hub.lifecycle.before_start = taken\n"
        "hub.finalize()\n"
        "asyncio.run(hub.start())\n"
    )
    done = run(["-c", code])
    assert done.returncode == 1
    (sentence,) = sentences(done)
    assert "address already in use. Choose another port with PENSTOCK_HTTP_PORT" in sentence
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", [_PENSTOCK, _SEVERAL], ids=["penstock", "several"])
def test_kafka_that_rejects_connections_is_logged_before_the_wait(command: list[str]) -> None:
    done = run(command, PENSTOCK_KAFKA_WAIT_S=1)
    assert done.returncode == 3
    reported = [line for line in done.stderr.splitlines() if f"Kafka at {_NO_KAFKA} d" in line]
    assert "does not answer (connection refused); waiting up to 1 s for it" in reported[0]
    assert "did not answer within 1 s (connection refused). Start a Kafka with `penstock kafka up`" in reported[-1]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["status", "lag", "dlq list", "traffic", "controller --once --resources ."])
def test_commands_say_that_kafka_refuses(command: str) -> None:
    done = run(["-m", "app.cli", *command.split()])
    assert done.returncode == 3
    assert f"Kafka at {_NO_KAFKA} does not answer (connection refused)." in done.stderr
    assert "Start a Kafka with `penstock kafka up`" in done.stderr


def test_controller_with_a_kubeconfig_that_is_not_valid_ends_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("users: [")
    done = run(["-m", "app.cli", "controller"], PENSTOCK_KAFKA_WAIT_S=1, PENSTOCK_KUBECONFIG=path)
    assert done.returncode == 2
    assert f"The kubeconfig {path} is not valid YAML (line 1). Set KUBECONFIG or PENSTOCK_KUBECONFIG" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["orders", "1"], ["-k", "1", "@agent", "x"], []])
def test_faust_send_says_what_to_use_instead(arguments: list[str]) -> None:
    done = run(["-m", "faust", "-A", "app", "send", *arguments])
    assert done.returncode == 2
    assert "`faust send` does not work with Penstock" in done.stderr
    assert "penstock send" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("started_from_scratch")
def test_faust_tables_lists_them() -> None:
    done = run(["-m", "faust", "-A", "app", "tables"], PENSTOCK_INSTANCE="mine")
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows == [
        ["NAME", "TOPIC"],
        ["contract", "mine.contract"],
        ["status", "mine.status"],
        ["traffic", "mine.windows-traffic-changelog"],
    ]
    without = run(["-m", "faust", "-A", "app", "tables"], PENSTOCK_TRAFFIC="false")
    assert "changelog" not in without.stdout


def test_faust_agents_without_kafka_is_a_sentence() -> None:
    done = run(["-m", "faust", "-A", "app", "agents"])
    assert done.returncode == 3
    assert "does not answer (connection refused)" in done.stderr
    assert "Traceback" not in done.stderr
