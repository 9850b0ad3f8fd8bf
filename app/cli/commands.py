"""The classes of commands: Typer's, with help that prints no type for a flag, and completion by name of shell.

penstock --show-completion        for the shell that runs the command
penstock --show-completion zsh    for this one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperCommand, TyperGroup, TyperOption

from knative.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_COMPLETION = {"--show-completion": show_callback, "--install-completion": install_callback}


class Command(TyperCommand):
    """One verb."""

    def get_params(self, ctx: Any) -> Any:
        """Its options, `--help` among them."""
        return _with_plain_flags(super().get_params(ctx))


class Group(TyperGroup):
    """Several verbs under one name."""

    def get_params(self, ctx: Any) -> Any:
        """Its options, `--help` among them."""
        return _with_plain_flags(super().get_params(ctx))


class Root(Group):
    """`penstock` itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Typer's completion options are flags that ask which shell runs them: here its name may follow."""
        if len(args) == 2 and args[0] in _COMPLETION:
            option, shell = args
            if shell not in _SHELLS:
                raise UsageError(f"{option} {shell!r} is not a shell that is known.", f"Write {', '.join(_SHELLS)}.")
            _COMPLETION[option](ctx, self.params[0], shell)  # prints or installs it, and ends the process
        return super().parse_args(ctx, args)


def _with_plain_flags(params: Sequence[Any]) -> Sequence[Any]:
    """Typer prints the type of every option: `--dlq <bool>` looks as if a value had to follow."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_bool_flag and param.metavar is None:
            param.metavar = "[SHELL]" if param.opts[0] in _COMPLETION else ""
    return params


class Commands(typer.Typer):
    """A place to register commands, so that all of them have the classes above."""

    def __init__(self, cls: type[Group] = Group, **options: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """As Typer's."""
        return super().command(name, cls=Command, **options)
