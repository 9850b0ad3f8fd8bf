"""A worker that is aborted leaves no core dump, although its shell allows one: credentials would be in it."""

from __future__ import annotations

import mmap
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY, Child, free_port, wait_until

LIMIT_S = 120.0
CANARY = f"canary{uuid.uuid4().hex}"
_SHELL = ["bash", "-c", 'ulimit -S -c "$(ulimit -H -c)"; exec "$@"', "-"]
_CONTROL = "import os, sys; canary = sys.stdin.read(); os.abort()"


def _writes_cores(folder: Path) -> bool:
    """Whether this machine writes the core of an aborted process into its folder, as a file that a test can read."""
    folder.mkdir()
    subprocess.run(
        [*_SHELL, sys.executable, "-c", _CONTROL], input=CANARY, text=True, cwd=folder, timeout=LIMIT_S, check=False
    )
    return _has_canary(folder)


def _has_canary(folder: Path) -> bool:
    return any(_contains(core) for core in folder.glob("core*"))


def _contains(core: Path) -> bool:
    with core.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        return memory.find(CANARY.encode()) >= 0


def _aborted(folder: Path, more: Mapping[str, str]) -> Path:
    """The folder in which a worker was aborted that had read the credentials and waited for Kafka."""
    secret, own = folder / "secret", folder / "own-token"
    secret.mkdir(parents=True)
    for name, value in (("protocol", "SASL_PLAINTEXT"), ("user", "u"), ("password", CANARY)):
        (secret / name).write_text(value)
    own.write_text(CANARY)
    env = {
        "PENSTOCK_KAFKA": f"127.0.0.1:{free_port()}",
        "PENSTOCK_KAFKA_WAIT_S": "600",
        "PENSTOCK_KAFKA_SECRET": str(secret),
        "PENSTOCK_OWN_TOKEN": f"file:{own}",
        "PENSTOCK_INGRESS_URL": "http://127.0.0.1",
        "PENSTOCK_HTTP_PORT": str(free_port()),
        "PENSTOCK_ADMIN_PORT": "0",
        **more,
    }
    run = folder / "run"
    with Child("worker", [*_SHELL, sys.executable, "-m", "app", "worker"], run, env) as worker:
        wait_until("the controller waits for Kafka", lambda: "does not answer" in worker.tail(), LIMIT_S)
        worker.process.send_signal(signal.SIGABRT)
        assert worker.wait(LIMIT_S) == -signal.SIGABRT
    return run


def test_worker_that_has_read_credentials_leaves_no_core_dump(tmp_path: Path) -> None:
    run = _aborted(tmp_path / "worker", {})
    assert list(run.glob("core*")) == []


def test_worker_with_debug_leaves_a_core_dump(tmp_path: Path) -> None:
    """So the test above would find one."""
    if not _writes_cores(tmp_path / "control"):
        pytest.skip("this machine writes no core into the folder of a process (kernel.core_pattern, ulimit -H -c)")
    assert _has_canary(_aborted(tmp_path / "worker", {"PENSTOCK_DEBUG": "true"}))


@pytest.mark.parametrize(
    ("settings", "hard", "limits"),
    [
        ({"kafka_secret": "SECRET"}, -1, "1 -1"),
        ({"kafka_secret": "SECRET"}, 4096, "1 4096"),
        ({"kafka_secret": "SECRET"}, 0, "0 0"),
        ({"kafka_secret": "SECRET", "debug": "true"}, 4096, "4096 4096"),
        ({"kafka_secrets": "SECRET"}, 4096, "1 4096"),
        ({"resources": "cluster:"}, 4096, "1 4096"),
        ({}, 4096, "4096 4096"),
    ],
)
def test_command_limits_core_dumps_if_it_has_credentials_and_no_debug(
    settings: dict[str, str], hard: int, limits: str, tmp_path: Path
) -> None:
    """Every command that uses Kafka calls `kafka_client`. Its children inherit both limits."""
    (tmp_path / "password").write_text("x")
    (tmp_path / "user").write_text("x")
    given = {name: value.replace("SECRET", str(tmp_path)) for name, value in settings.items()}
    code = (
        "import resource, subprocess, sys\n"
        "from app.settings.kafka import kafka_client\n"
        "from app.settings.load import load_settings\n"
        f"resource.setrlimit(resource.RLIMIT_CORE, ({hard}, {hard}))\n"
        f"kafka_client(load_settings({given!r}))\n"
        "child = 'import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))'\n"
        "subprocess.run([sys.executable, '-c', child], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, cwd=REPOSITORY, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (limits, "")
