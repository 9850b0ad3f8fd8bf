"""`penstock dlq`: commands for dead letters. Each command has a module of its own."""

from __future__ import annotations

from app.cli.commands import Commands, Entry

_COMMANDS = (
    Entry(
        "list",
        "app.cli.dlq.list:list_letters",
        "List dead letters by subscription and reason: their number, how many are redriven, the oldest, the newest.",
    ),
    Entry(
        "show",
        "app.cli.dlq.show:show",
        "Print complete dead letters: attributes, headers, the subscriber's answer, data.",
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
    """List, show and redrive dead letters.

    Dead letters are events whose delivery has failed permanently.

    \b
    Examples:
      penstock dlq list
      penstock dlq show --subscription default/picky --last 1
      penstock dlq redrive --subscription default/picky --dry-run
    """
