"""`penstock dlq`: commands for dead letters. Each command has a module of its own."""

from __future__ import annotations

from app.cli.commands import Commands, Entry

_COMMANDS = (
    Entry(
        "list",
        "app.cli.dlq.list:list_letters",
        "List dead letters by subscription and reason: how many, how many of them redriven, the oldest, the newest.",
    ),
    Entry(
        "show",
        "app.cli.dlq.show:show",
        "Print whole dead letters: attributes, headers, what the subscriber answered, data.",
    ),
    Entry(
        "redrive",
        "app.cli.dlq.redrive:redrive",
        "Deliver dead letters again, each to the subscriber of its subscription only, with its id and attributes.",
    ),
)


group = Commands(_COMMANDS)


@group.callback()
def dlq() -> None:
    """Dead letters: events that a subscriber did not take.

    \b
    Examples:
      penstock dlq list
      penstock dlq show --subscription default/picky --last 1
      penstock dlq redrive --subscription default/picky --dry-run
    """
