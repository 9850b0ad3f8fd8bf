"""The tree of `penstock`'s commands, for tests that go through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.cli.commands import Listed


def commands_of(group: Any) -> dict[str, Any]:
    """Name -> command, imported; empty when `group` is a single command."""
    commands = getattr(group, "commands", {})
    return {name: command.load() if isinstance(command, Listed) else command for name, command in commands.items()}


def listed_in(group: Any) -> Iterator[tuple[str, Listed]]:
    """Name and entry of all that is listed under `group`, at any depth."""
    for name, listed in getattr(group, "commands", {}).items():
        if isinstance(listed, Listed):
            yield name, listed
    for command in commands_of(group).values():
        yield from listed_in(command)
