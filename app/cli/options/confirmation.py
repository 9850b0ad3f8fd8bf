"""The rule of commands whose work cannot be undone: they ask on a terminal, and need `--yes` elsewhere."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from knative.errors import PenstockError, UsageError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")]


def asks(yes: bool, what: str) -> bool:
    """Returns whether `confirm` will ask. `what`: what the command will do. Raises UsageError if nobody can answer."""
    if yes:
        return False
    if not has_terminal():
        raise UsageError(f"{what} must be confirmed, and there is no terminal to ask on.", "Add --yes.")
    return True


def has_terminal() -> bool:
    """Returns whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def confirm(question: str) -> None:
    """Ask on standard error. Raises PenstockError for a no."""
    if not typer.confirm(question, err=True):
        raise PenstockError("Nothing was changed.")
