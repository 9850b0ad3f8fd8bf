"""Groups list commands that are not imported: what they say of each is what the command says."""

from __future__ import annotations

from typing import Any

import typer.main

from app.cli import cli
from tests.support.commands import listed_in

_LISTED = list(listed_in(typer.main.get_command(cli)))


def test_all_commands_but_those_of_one_module_are_listed() -> None:
    names = [name for name, _ in _LISTED]
    assert len(names) == 31
    assert {"up", "status", "redrive", "config"} <= set(names)


def _as_listed(command: Any) -> tuple[object, ...]:
    return command.name, command.help.partition("\n\n")[0].replace("\n", " "), command.hidden, command.deprecated


def test_listed_command_has_the_name_and_the_summary_of_the_real_one() -> None:
    listed = {name: (command.name, command.help, command.hidden, command.deprecated) for name, command in _LISTED}
    assert listed == {name: _as_listed(command.load()) for name, command in _LISTED}
    assert [name for name, command in _LISTED if command.name != name] == []
