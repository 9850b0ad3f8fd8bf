"""Groups list commands that are not imported: what they say of each is what the command says."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from app.cli import cli
from app.cli.commands import Listed
from tests.support.commands import listed_in

_LISTED = list(listed_in(typer.main.get_command(cli)))


def test_all_commands_but_those_of_one_module_are_listed() -> None:
    names = [name for name, _ in _LISTED]
    assert len(names) == 31
    assert {"up", "status", "redrive", "config"} <= set(names)


@pytest.mark.parametrize(("name", "listed"), _LISTED, ids=[one.place for _, one in _LISTED])
def test_a_listed_command_has_the_name_and_the_summary_of_the_real_one(name: str, listed: Listed) -> None:
    command: Any = listed.load()
    assert command.name == listed.name == name
    assert listed.help == command.help.partition("\n\n")[0].replace("\n", " ")
    assert listed.hidden == command.hidden
    assert listed.deprecated == command.deprecated
