"""Several processes by one command, and changes of what they were started with: bad ones stop none of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from app.local.kafka.ports import LOOPBACK
from tests.support.processes import Child, free_port, get, wait_until
from tests.system.restarting import LIMIT_S

pytestmark = pytest.mark.system

TOKENS = f"- name: shop\n  sha256: {64 * 'a'}\n  channels: [shop/*]\n"


def test_what_cannot_be_used_stops_none_and_fewer_processes_hand_over(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A port that is taken, two processes in place of three, and a tokens file that a restarted one cannot read."""
    file, tokens, admin_port = tmp_path / "settings", tmp_path / "tokens", free_port()
    settings = {
        "KAFKA": kafka.bootstrap, "INSTANCE": f"i{uuid.uuid4().hex[:8]}", "BIND": LOOPBACK, "LOG_FORMAT": "json",
        "HTTP_PORT": free_port(), "ADMIN_PORT": admin_port, "TOKENS": f"file:{tokens}", "PROCESSES": 3,
    }  # fmt: skip

    def write(**changes: object) -> None:
        text = "".join(f"PENSTOCK_{name}={value}\n" for name, value in {**settings, **changes}.items())
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(file)

    def page() -> dict[str, Any]:
        status, body = get(admin_port, "/readyz")
        return json.loads(body) if status == 200 else {}

    def ready() -> int:
        return sum(row["status"] == "ready" for row in page().get("processes", []))

    tokens.write_text(TOKENS)
    write()
    command = [sys.executable, "-m", "app", "worker"]
    with Child("several", command, tmp_path, {"PENSTOCK_CONFIG": str(file)}) as child:

        def said(event: str) -> list[dict[str, Any]]:
            lines = [line for line in child.log.read_text().splitlines() if line[:1] == "{" and line[-1:] == "}"]
            return [line for line in map(json.loads, lines) if line["event"] == event]

        def pids() -> list[int]:
            return [line["pid"] for line in said("a worker process was started")]

        wait_until("all three are ready", lambda: ready() == 3, LIMIT_S)
        with socket.create_server((LOOPBACK, 0)) as other:
            write(HTTP_PORT=other.getsockname()[1])
            wait_until("the port is not used", lambda: page().get("changes") == "not used", LIMIT_S)
        write(PROCESSES=2)
        wait_until("two are ready", lambda: len(page().get("processes", [])) == 2 and ready() == 2, LIMIT_S)
        wait_until("the former ones are gone", lambda: not any(map(_runs, pids()[:3])), LIMIT_S)
        assert len(pids()) == 5
        assert [line["process"] for line in said("a worker process is asked to hand over")] == [2, 3]
        assert not said("a worker process has ended")
        tokens.unlink()
        os.kill(pids()[4], signal.SIGKILL)
        wait_until("it cannot be started", lambda: len(said("a worker process has ended")) >= 2, LIMIT_S)
        ends = said("a worker process has ended")[:2]
        assert [(end["process"], end.get("signal"), end.get("exit_code")) for end in ends] == [
            (2, "SIGKILL", None),
            (2, None, 2),
        ]
        assert ready() == 1
        tokens.write_text(TOKENS)
        wait_until("both are ready again", lambda: ready() == 2, LIMIT_S)
        assert child.terminate() == 0, child.tail()
        assert not any(map(_runs, pids()))


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
