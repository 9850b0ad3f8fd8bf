"""Help of every command: examples, no types for flags, a place in the reference."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from app.cli import cli
from app.cli.commands import flowing
from tests.support.commands import commands_of

_REPOSITORY = Path(__file__).parents[4]


def _commands() -> list[list[str]]:
    root = typer.main.get_command(cli)
    names: list[list[str]] = [[]]
    for name, command in commands_of(root).items():
        names.append([name])
        names.extend([name, inner] for inner in commands_of(command))
    return names


def _help_of(command: list[str]) -> str:
    node: Any = typer.main.get_command(cli)
    for name in command:
        node = commands_of(node)[name]
    return node.help or ""


def _pages(**env: str) -> dict[str, str]:
    """The help of each command, as it is shown."""
    pages = {}
    for command in _commands():
        done = CliRunner(env=env).invoke(cli, [*command, "--help"])
        assert done.exit_code == 0
        pages[" ".join(["penstock", *command])] = done.output
    return pages


def test_every_help_has_examples_and_shows_a_flag_without_a_value() -> None:
    pages = _pages()
    assert [name for name, page in pages.items() if "Examples:" not in page or name not in page] == []
    assert [name for name, page in pages.items() if "bool" in page] == []


def test_reference_names_every_command() -> None:
    page = (_REPOSITORY / "docs" / "reference" / "command-line.md").read_text()
    missing = [command for command in _commands() if f"{' '.join(command)}" not in page]
    assert not missing


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    pages = _pages(COLUMNS="60")
    assert [name for name, page in pages.items() if "…" in page or max(map(len, page.splitlines())) != 60] == []


_EXAMPLES = [line for command in _commands() for line in _help_of(command).splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("width", [58, 78])
def test_examples_can_be_copied(width: int) -> None:
    for line in _EXAMPLES:
        rows = flowing(f"Does it.\n\n\b\nExamples:\n{line}", width).split("Examples:\n")[1].splitlines()
        assert shlex.split("\n".join(rows).replace("\\\n", "")) == shlex.split(line)
        assert all(row.startswith("  ") for row in rows)
        if max(map(len, line.split())) < width // 2:
            assert max(map(len, rows)) <= width


def test_paragraphs_flow_and_keep_their_order() -> None:
    text = "One\nline.\n\nTwo\nlines.\n\n\b\nExamples:\n  penstock a   what it does\n  penstock b"
    assert flowing(text, 20) == "One line.\n\n\n\nTwo lines.\n\nExamples:\n  penstock a   what it does\n  penstock b"
