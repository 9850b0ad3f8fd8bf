"""Changed settings and secrets, as far as no Kafka is needed: what is tried, and what is said of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.local.kafka.ports import LOOPBACK
from app.settings.kafka import worker_kafka
from app.settings.load import load_settings
from app.worker import renewal as module
from app.worker.renewal import Renewal
from tables.kafka.acceptance import Refusal
from tests.support.secured_kafka import write_secret

KEYS = {"protocol": "SASL_PLAINTEXT", "user": "ann", "password": "canary"}


class World:
    """A settings file and a Kafka secret, and a Kafka that accepts everything."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.file, self.secret = folder / "settings", write_secret(folder / "secret", **KEYS)
        self.write(drain_s=3)
        patch.setenv("PENSTOCK_CONFIG", str(self.file))
        patch.setenv("PENSTOCK_KAFKA_SECRET", str(self.secret))
        patch.setenv("PENSTOCK_KAFKA", "127.0.0.1:1")
        self.refusal: Refusal | None = None
        patch.setattr(module, "refused", lambda *_: self.refusal)
        settings = load_settings()
        self.renewal = Renewal(settings, worker_kafka(settings)[0], list, lambda: True, self._restart)

    async def _restart(self) -> None:
        raise AssertionError("nobody runs it")

    def write(self, **settings: object) -> None:
        """Other settings."""
        self.file.write_text("".join(f"PENSTOCK_{name.upper()}={value}\n" for name, value in settings.items()))

    def look(self) -> bool:
        """Whether it wants a restart."""
        return asyncio.run(self.renewal.look())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda world: world.write(drain_s=4), "PENSTOCK_DRAIN_S"),
        (lambda world: write_secret(world.secret, password="canary-two"), "password"),
        (lambda world: world.renewal.hang_up(), None),
    ],
    ids=["settings", "secret", "SIGHUP"],
)
def test_what_changes_is_used(world: World, change: Callable[[World], object], name: str | None) -> None:
    assert not world.look(), "nothing has changed"
    change(world)
    with capture_logs() as logs:
        assert world.look()
    # Clients of other tests of this process may say something meanwhile.
    changes = [line["changes"] for line in logs if line["event"].startswith("the worker starts again")]
    assert changes == [[] if name is None else [name]]
    assert "canary" not in str(logs)


def test_files_with_the_same_content_are_no_change(world: World) -> None:
    assert not world.look()
    write_secret(world.secret, **KEYS)
    world.write(drain_s="3.0")
    assert not world.look()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda world: world.write(drain_s="canary"), "PENSTOCK_DRAIN_S='canary' from the file"),
        (lambda world: write_secret(world.secret, password=""), "PLAIN needs password"),
        (lambda world: world.file.unlink(), "does not exist"),
    ],
)
def test_what_is_not_valid_is_not_used(world: World, change: Callable[[World], object], problem: str) -> None:
    change(world)
    with capture_logs() as logs:
        assert not world.look()
        assert not world.look()
    assert problem in (world.renewal.problem or "")
    assert [line["event"] for line in logs] == ["changed files are not used"], "it is said once"
    world.write(drain_s=3)
    write_secret(world.secret, **KEYS)
    with capture_logs() as logs:
        assert not world.look(), "it is as it was"
    assert world.renewal.problem is None
    assert [line["event"] for line in logs] == ["the files are as they were before"]


@pytest.mark.parametrize(("name", "hint"), [("http_port", "PENSTOCK_HTTP_PORT"), ("admin_port", "PENSTOCK_ADMIN_PORT")])
def test_new_port_that_is_taken_is_not_used(world: World, name: str, hint: str) -> None:
    """The next run could not open it, and would end."""
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        world.write(drain_s=3, **{name: port})
        assert not world.look()
        assert f":{port}: address already in use" in (world.renewal.problem or "")
        assert hint in (world.renewal.problem or "")
    world.renewal.hang_up()
    assert world.look(), "it is free now"


def test_files_that_cannot_be_read_end_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(module, "worker_kafka", fails)
    world.renewal.hang_up()
    assert not world.look()
    assert world.renewal.problem == "too many open files"


def test_credentials_that_kafka_refuses_are_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", (0.0, 0.0))
    world.refusal = Refusal("correct user and password")
    write_secret(world.secret, password="canary-two")
    assert not world.look()
    expected = f"The credentials for Kafka in {world.secret} are not used yet: correct user and password."
    assert world.renewal.problem == expected
    world.refusal = None
    assert world.look()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_module_of_ours", "No module named 'no_such_module_of_ours'"),
        ("raise SystemExit(3)", "The program cannot be built (exit code 3)"),
    ],
)
def test_code_that_does_not_start_is_not_used(
    world: World, monkeypatch: pytest.MonkeyPatch, code: str, problem: str
) -> None:
    monkeypatch.setattr(module, "_BUILD", (sys.executable, "-c", code))
    world.renewal.hang_up()
    assert not world.look()
    assert problem in (world.renewal.problem or "")


@pytest.mark.parametrize(
    ("terminals", "stops"), [((True, False), True), ((True, True), False), ((False, False), False)]
)
def test_terminal_that_is_gone_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminals: tuple[bool, bool], stops: bool
) -> None:
    """`terminals`: whether there is one at the start, and at SIGHUP."""
    answers, raised = iter(terminals), list[int]()
    monkeypatch.setattr(os, "isatty", lambda _: next(answers))
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    world = World(tmp_path, monkeypatch)
    world.renewal.hang_up()
    assert raised == ([signal.SIGTERM] if stops else [])
    assert world.renewal._asked.is_set() is not stops
