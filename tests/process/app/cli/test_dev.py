"""`penstock dev` without a Kafka: it serves a file, follows its changes, and removes what it wrote."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml

from app.local.packaged import python_module
from penstock import Client
from penstock.events import event, to_message
from tests.support.processes import Child, penstock, wait_until

_LIMIT_S = 180
_APP = """
import web
from penstock import on

@on("type = 'order.created'")
def bill_order(event):
    print("billed by", web.WHOSE, event.get_data(), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project, and the directory that a `penstock up` in it serves."""
    (tmp_path / "web.py").write_text("WHOSE = 'mine'")
    (tmp_path / "app.py").write_text(_APP)
    (tmp_path / "served").mkdir()
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "last-up.json").write_text(json.dumps({"resources": str(tmp_path / "served")}))
    return tmp_path


def _triggers(written: Path) -> dict[str, str]:
    """Filter -> URL."""
    documents = list(yaml.safe_load_all(written.read_text())) if written.exists() else []
    triggers = [document["spec"] for document in documents if document["kind"] == "Trigger"]
    return {spec["filters"][0]["cesql"]: spec["subscriber"]["uri"] for spec in triggers}


def test_file_is_served_followed_and_removed(project: Path) -> None:
    written = project / "served" / "dev-app.yaml"
    command = python_module("app.cli", "dev", str(project / "app.py"), "--home", str(project / ".penstock"))
    with Child("dev", command, project) as dev:
        wait_until("it is written", lambda: "type = 'order.created'" in _triggers(written), _LIMIT_S)
        message = to_message(event({"amount": 120}, type="order.created", source="/shop"))
        with Client(_triggers(written)["type = 'order.created'"]) as client:
            assert client.post(*message).status == 204
        wait_until("it is handled", lambda: "billed by mine {'amount': 120}" in dev.output(), _LIMIT_S)

        before = written.read_text()
        (project / "app.py").write_text(_APP + "(")
        wait_until("it says so", lambda: "app.py cannot be served. Fix it" in dev.log.read_text(), _LIMIT_S)
        assert written.read_text() == before
        (project / "app.py").write_text(_APP.replace("order.created", "order.paid"))
        wait_until("it is followed", lambda: set(_triggers(written)) == {"type = 'order.paid'"}, _LIMIT_S)
        with Client(_triggers(written)["type = 'order.paid'"]) as client:
            assert client.post(*message).status == 204

        dev.process.send_signal(signal.SIGINT)
        assert dev.wait(_LIMIT_S) == 0
        assert "`penstock remove --unlisted` deletes resources that are in no file" in dev.log.read_text()
    assert list((project / "served").glob("*.yaml")) == []


def test_second_one_of_the_same_name_is_refused(project: Path) -> None:
    written = project / "served" / "dev-app.yaml"
    options = ("dev", str(project / "app.py"), "--home", str(project / ".penstock"))
    with Child("dev", python_module("app.cli", *options), project) as dev:
        wait_until("it is written", written.exists, _LIMIT_S)
        assert "penstock send --broker default/dev --type order.created" in dev.log.read_text()
        second = penstock(*options)
        assert second.returncode != 0
        assert f"Another process has {written}" in second.stderr
        assert written.exists(), "and the first goes on"
        dev.process.send_signal(signal.SIGINT)
        assert dev.wait(_LIMIT_S) == 0


def test_mistake_is_shown_from_the_users_own_code_on(project: Path) -> None:
    (project / "app.py").write_text("from penstock import on\n\nprint(missing)\n")
    command = python_module("app.cli", "dev", str(project / "app.py"), "--home", str(project / ".penstock"))
    with Child("dev", command, project) as dev:
        wait_until("it says so", lambda: "app.py cannot be served" in dev.log.read_text(), _LIMIT_S)
        text = dev.log.read_text()
        assert "NameError: name 'missing' is not defined" in text
        assert "serving.py" not in text
        assert "importlib" not in text


def test_terminal_that_closes_ends_it(project: Path) -> None:
    written = project / "served" / "dev-app.yaml"
    command = python_module("app.cli", "dev", str(project / "app.py"), "--home", str(project / ".penstock"))
    with Child("dev", command, project) as dev:
        wait_until("it is written", written.exists, _LIMIT_S)
        dev.process.send_signal(signal.SIGHUP)
        assert dev.wait(_LIMIT_S) == 0
    assert not written.exists()


def test_what_is_not_possible_is_a_sentence(project: Path) -> None:
    done = penstock("dev", "none.py")
    assert (done.returncode, "There is no file none.py" in done.stderr) == (2, True)
    done = penstock("dev", str(project / "app.py"), "--home", str(project / "elsewhere"))
    assert done.returncode == 2
    assert "Run this command in a folder where `penstock up` runs." in done.stderr
    done = penstock("dev", str(project / "app.py"), "--resources", str(project / "missing"))
    assert done.returncode == 2
    assert f"There is no directory {project / 'missing'}. Name a directory that `penstock up` serves" in done.stderr
    (project / "served" / "dev-app.yaml").write_text("kind: Broker")
    done = penstock("dev", str(project / "app.py"), "--home", str(project / ".penstock"))
    assert done.returncode == 2
    assert "dev-app.yaml was not written by `penstock dev`. Rename that file" in done.stderr
    assert (project / "served" / "dev-app.yaml").read_text() == "kind: Broker"
