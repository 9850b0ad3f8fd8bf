"""The command as it is named to the user, and the settings that do not count for `penstock up`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.cli.up import command_here, console_mode, settings_notes
from app.settings.load import load_settings
from knative.errors import UsageError


def test_command_named_works_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_up_names_the_settings_it_ignores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    assert settings_notes(load_settings(), chosen=False) == []
    for name, value in (("ROLE", "ingress"), ("DRAIN_S", "4"), ("STATE_DIR", "/s"), ("RESOURCES", "file:mine")):
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    reported = [
        "PENSTOCK_ROLE (from the environment) has no effect: `penstock up` uses all.",
        "PENSTOCK_STATE_DIR (from the environment) has no effect: `penstock up` uses the folder `state` in --home.",
    ]
    assert settings_notes(load_settings(), chosen=True) == reported
    *others, last = settings_notes(load_settings(), chosen=False)
    assert others == reported
    assert last.startswith("Using the resources in mine: PENSTOCK_RESOURCES (from the environment) is set")


def test_up_does_not_serve_the_example_beside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_RESOURCES", "cluster:shop")
    done = CliRunner().invoke(cli, ["up"])
    assert isinstance(done.exception, UsageError)
    assert "PENSTOCK_RESOURCES (from the environment) is a cluster" in str(done.exception)


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({}, "write"),
        ({"CONSOLE": "read"}, "read"),
        ({"CONSOLE": "off"}, "off"),
        ({"ADMIN_BIND": "0.0.0.0"}, "off"),
        ({"ADMIN_BIND": "0.0.0.0", "CONSOLE_TOKENS": "file:people.yaml"}, "read"),
        ({"ADMIN_BIND": "0.0.0.0", "CONSOLE_TOKENS": "file:people.yaml", "CONSOLE": "write"}, "write"),
    ],
)
def test_people_may_act_in_the_console_unless_others_reach_it(
    values: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    for name, value in values.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    assert console_mode(load_settings()) == mode
