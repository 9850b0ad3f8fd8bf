"""Help of every command: examples, no types for flags, a place in the reference."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from app.cli import cli
from tests.support.commands import commands_of

_REPOSITORY = Path(__file__).parents[4]


def _commands() -> list[list[str]]:
    root = typer.main.get_command(cli)
    names: list[list[str]] = [[]]
    for name, command in commands_of(root).items():
        names.append([name])
        names.extend([name, inner] for inner in commands_of(command))
    return names


@pytest.mark.parametrize("command", _commands(), ids=lambda command: " ".join(command) or "penstock")
def test_every_help_has_examples(command: list[str]) -> None:
    shown = CliRunner().invoke(cli, [*command, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert f"penstock {' '.join(command)}".strip() in shown.output


@pytest.mark.parametrize("command", _commands(), ids=lambda command: " ".join(command) or "penstock")
def test_a_flag_is_shown_without_a_value(command: list[str]) -> None:
    assert "bool" not in CliRunner().invoke(cli, [*command, "--help"]).output


def test_the_reference_names_every_command() -> None:
    page = (_REPOSITORY / "docs" / "reference" / "command-line.md").read_text()
    missing = [command for command in _commands() if f"{' '.join(command)}" not in page]
    assert not missing
