"""What `penstock up` shows: progress of the jars, how to go on from here, and which complaints it keeps to itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.output.format import jar_progress
from app.cli.output.up_banner import welcome
from app.cli.running import command_here, said_of_settings
from app.local.child_process import loud_line
from app.local.kafka import jars
from app.local.kafka.jar_sets import JarSet
from app.local.kafka.ports import free_port
from app.local.kafka.processes import start_time
from app.local.kafka.record import Running, write_record
from app.local.packaged import example
from app.local.stack import Stack, StackConfig
from app.settings.load import load_settings
from knative.errors import UsageError

_CHANNEL = "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\nmetadata: {name: orders, namespace: shop}\n"
_CURSOR_BACK = "\x1b[?25h"


def test_what_to_try_fits_resources_and_ports_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(_CHANNEL)
    config = StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path, http_port=8088)
    lines = welcome(config, "127.0.0.1:9093", [], 3.2, ".venv/bin/penstock")
    assert ".venv/bin/penstock send --count 20 --key customer-7 --channel shop/orders --server localhost:8088" in lines
    looks = [line for line in lines if ".venv/bin/penstock receive" in line]
    assert len(looks) == 2
    assert all(line.endswith(" --channel shop/orders --kafka 127.0.0.1:9093") for line in looks)
    assert not any("picky" in line for line in lines)


def test_the_command_named_works_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ".venv" / "bin" / "penstock"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(own.with_name("python")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_here() == ".venv/bin/penstock"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command_here() == str(own)
    monkeypatch.setenv("PATH", str(own.parent))
    assert command_here() == "penstock"


def test_the_bar_leaves_the_terminal_with_the_last_jar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not only at the end of the block: the stack runs in it, and its children write to the same terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with jar_progress() as progress:
        assert capsys.readouterr().err == ""  # nothing to bring, nothing to show
        progress(0, 2)
        progress(1, 2)
        assert _CURSOR_BACK not in capsys.readouterr().err
        progress(2, 2)
        assert _CURSOR_BACK in capsys.readouterr().err


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
    told: list[tuple[int, int]] = []
    libs = jars.ensure_jars(tmp_path / "kafka", lambda arrived, expected: told.append((arrived, expected)), jars=one)
    assert [jar.name for jar in libs.glob("*.jar")] == ["a.jar"]
    assert told == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PENSTOCK_HTTP_PORT", "{taken}", "Port {taken} of 127.0.0.1, wanted for events"),
        ("PENSTOCK_ADMIN_PORT", "{taken}", "Port {taken} of 127.0.0.1, wanted for metrics"),
        ("PENSTOCK_HTTP_PORT", "abc", "PENSTOCK_HTTP_PORT='abc' from the environment is wrong"),
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
        command = [sys.executable, "-m", "app.cli", "up", "--subscriber-port", "0", "--home", str(tmp_path)]
        command += ["--data", str(tmp_path / "kafka")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert says.format(taken=taken) in done.stderr
    assert "Stopped." not in done.stderr
    assert done.returncode == (2 if value == "abc" else 1)


def test_a_second_up_says_first_that_there_is_one(tmp_path: Path) -> None:
    """Its ports are taken too, and none of them is what is wrong."""
    write_record(tmp_path, Running(os.getpid(), start_time(os.getpid()) or "", 9092, attached=True))
    with socket.create_server(("127.0.0.1", 0)) as first:
        config = StackConfig(
            home=tmp_path, resources=example("quickstart"), jars_root=tmp_path, kafka_data=tmp_path,
            http_port=first.getsockname()[1],
        )  # fmt: skip
        with pytest.raises(UsageError, match=f"already runs here: .* \\(process {os.getpid()}\\)"):
            Stack(config, print).start()


def test_a_kafka_without_a_port_is_refused_before_anything_starts() -> None:
    command = [sys.executable, "-m", "app.cli", "up", "--kafka", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "PENSTOCK_KAFKA='127.0.0.1' from the command line" in done.stderr


def test_a_stack_that_never_started_has_nothing_to_stop(tmp_path: Path) -> None:
    assert not Stack(StackConfig(home=tmp_path, resources=tmp_path, jars_root=tmp_path), print).runs


def test_complaints_of_a_fresh_kafka_stay_in_the_log() -> None:
    line = '{"level": "warning", "event": "GETPID [x]: Coordinator load in progress: retrying"}'
    assert loud_line(line, ("GETPID ",)) is None
    assert loud_line(line) == "warning: GETPID [x]: Coordinator load in progress: retrying"


def _up(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`penstock up` on a Kafka that does not answer."""
    ports = [part for name in ("--http-port", "--admin-port") for part in (name, str(free_port()))]
    command = [sys.executable, "-m", "app.cli", "up", "--kafka", "127.0.0.1:1", "--home", str(folder), *ports]
    return subprocess.run(
        [*command, "--subscriber-port", "0", *options], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PENSTOCK_KAFKA_WAIT_S": "1", **variables}, cwd=folder,
    )  # fmt: skip


def test_a_kafka_that_does_not_answer_is_said_once_and_is_not_ready(tmp_path: Path) -> None:
    done = _up(tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("Kafka at 127.0.0.1:1 did not answer within 1 s") == 1
    assert "The worker ended (exit code 3). Its log is " in done.stderr


@pytest.mark.parametrize("subscriber_port", [0, free_port()])
def test_a_home_that_cannot_be_made_is_said_before_kafka_starts(tmp_path: Path, subscriber_port: int) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home"
    ports = [part for name in ("--http-port", "--admin-port", "--kafka-port") for part in (name, str(free_port()))]
    command = [sys.executable, "-m", "app.cli", "up", "--home", str(home), "--data", str(tmp_path / "kafka"), *ports]
    done = subprocess.run(
        [*command, "--subscriber-port", str(subscriber_port)], capture_output=True, text=True, check=False, timeout=60
    )
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


def test_up_says_which_settings_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    assert said_of_settings(load_settings(), chosen=False) == []
    for name, value in (("ROLE", "ingress"), ("DRAIN_S", "4"), ("STATE_DIR", "/s"), ("RESOURCES", "file:mine")):
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    told = [
        "PENSTOCK_ROLE (from the environment) does not count for `penstock up`: it is all here.",
        "PENSTOCK_STATE_DIR (from the environment) does not count for `penstock up`: it is the folder `state` in "
        "--home here.",
    ]
    assert said_of_settings(load_settings(), chosen=True) == told
    *others, last = said_of_settings(load_settings(), chosen=False)
    assert others == told
    assert last.startswith("Using the resources in mine: PENSTOCK_RESOURCES (from the environment) says so")
