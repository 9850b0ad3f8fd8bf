"""Penstock's programs beside a user's project that has packages of the same names."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from app.local.packaged import python_module
from penstock._entry import OWN
from tests.support.processes import REPOSITORY, free_port

_LIMIT_S = 180
_SCRIPT = "import sys; sys.path.remove(''); sys.argv[0] = 'penstock'; from penstock._entry import main; main()"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project: each of its packages ends the process that imports it."""
    for package in OWN - {"penstock"}:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('a package of the user')")
    return tmp_path


def _run(project: Path, command: list[str], path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        command, cwd=project, env={**inherited, **variables, "PYTHONPATH": path}, capture_output=True, text=True,
        check=False, timeout=_LIMIT_S,
    )  # fmt: skip


def test_every_package_of_the_wheel_is_protected() -> None:
    packages = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")}
    assert packages - {"tests", "benchmarks"} == OWN


@pytest.mark.parametrize("path", [f".:{REPOSITORY}", f"{{project}}:{REPOSITORY}"], ids=["relative", "absolute"])
def test_console_script_does_not_import_the_users_packages(project: Path, path: str) -> None:
    command = [sys.executable, "-c", _SCRIPT]
    path = path.format(project=project)
    done = _run(project, [*command, "--version"], path)
    assert (done.returncode, done.stdout) == (0, f"penstock {version('penstock')}\n"), done.stderr
    resources = str(REPOSITORY / "examples" / "quickstart")
    done = _run(project, [*command, "validate", resources], path)
    assert done.returncode == 0, done.stderr


def test_child_does_not_import_the_users_packages(project: Path) -> None:
    done = _run(project, python_module("app.local.sample_subscriber", "--help"), ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert "python -m app.local.sample_subscriber" in done.stdout


def test_worker_does_not_import_the_users_packages(project: Path) -> None:
    """As far as a worker comes without a Kafka: Faust has put the current folder first, and the lifecycle has begun."""
    settings = {
        "PENSTOCK_KAFKA": "127.0.0.1:1", "PENSTOCK_KAFKA_WAIT_S": "1", "PENSTOCK_HTTP_PORT": str(free_port()),
        "PENSTOCK_ADMIN_PORT": "0",
    }  # fmt: skip
    done = _run(project, python_module("app.cli", "worker"), ".", **settings)
    assert done.returncode == 3, done.stderr
    assert "a package of the user" not in done.stdout + done.stderr
    assert "127.0.0.1:1" in done.stderr


_LIBRARY = """
import agents, tables
import penstock
from penstock import Client, Subscriber, cesql, testing
import app, web
broker = testing.Broker()
seen = []
broker.subscribe(lambda event: seen.append(event.get_id()), filter="type = 't'")
broker.send(id="1", type="t", source="/s")
broker.run()
import agents.own
print(seen, *(module.WHOSE for module in (agents, tables, app, web, agents.own)))
"""


def test_library_and_the_users_packages_do_not_hide_each_other(tmp_path: Path) -> None:
    for package in ("agents", "tables", "app", "web"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("WHOSE = 'mine'")
    (tmp_path / "agents" / "own.py").write_text("WHOSE = 'mine too'")
    done = _run(tmp_path, [sys.executable, "-c", _LIBRARY], f".:{REPOSITORY}")
    assert (done.returncode, done.stdout) == (0, "['1'] mine mine mine mine mine too\n"), done.stderr


def test_library_alone_imports_nothing_of_weight(tmp_path: Path) -> None:
    heavy = "{'agents', 'knative', 'cloudevents', 'aiohttp', 'confluent_kafka', 'tenacity', 'asyncio', 'typing'}"
    program = f"import sys; before = set(sys.modules); import penstock; print({heavy} & set(sys.modules) - before)"
    done = _run(tmp_path, [sys.executable, "-c", program], str(REPOSITORY))
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
