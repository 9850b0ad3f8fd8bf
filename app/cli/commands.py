"""The classes of commands: Typer's, but imported when they are called, and with help that prints no type for a flag.

    group (names and summaries) -- `penstock status` --> import app.cli.status --> a command from its function `status`

penstock --show-completion        for the shell that runs the command
penstock --show-completion zsh    for this one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from shutil import get_terminal_size
from typing import Any, ClassVar, TypeVar

import typer
import typer.main
from typer.completion import install_callback, show_callback
from typer.core import TyperCommand, TyperGroup, TyperOption

from knative.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

AS_IT_IS = "\b"  #: begins a paragraph whose lines stay
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_WORDS = re.compile(r"""(?:-\S+ (?!-))?(?:'[^']*'|"[^"]*"|\S)+""")  #: of a command line; options with their values
_COMPLETION = {"--show-completion": show_callback, "--install-completion": install_callback}


class Helpful:
    """Help that fits the terminal: paragraphs flow, examples can be copied, and nothing is cut off."""

    help: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Works as Typer's."""
        from rich.table import Table
        from typer import rich_utils

        class Folding(Table):
            def add_row(self, *cells: Any, **options: Any) -> None:
                super().add_row(*cells, **options)
                texts = (text for cell in cells for text in getattr(cell, "renderables", ()))
                for part in (*self.columns, *texts):
                    part.overflow = "fold"

        given, width = self.help, get_terminal_size().columns - 2  # there is a space at each side
        module: Any = rich_utils
        try:
            self.help, module.Table = flowing(given or "", width), Folding
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            self.help, module.Table = given, Table


def flowing(text: str, width: int) -> str:
    """Returns help in the form that Typer prints well, for lines of `width` characters. Pure."""
    paragraphs: list[str] = []
    for paragraph in text.split("\n\n"):
        as_it_is, lines = paragraph.startswith(AS_IT_IS), paragraph.removeprefix(AS_IT_IS).strip("\n").split("\n")
        paragraphs.append("\n".join(_folded(line, width) for line in lines) if as_it_is else " ".join(lines))
    # With an empty line first, Typer keeps the indentation of what follows, even if that is one paragraph.
    return "\n\n".join([paragraphs[0], "", *paragraphs[1:]])


def _folded(line: str, width: int) -> str:
    """Folds an example into lines that a shell takes for one. Leaves alone one with an explanation beside it."""
    if len(line) <= width or "   " in line:
        return line
    first, *words = _WORDS.findall(line)
    rows = [f"  {first}"]
    for word in words:
        if len(rows[-1]) + len(word) + 3 > width:
            rows.append(f"      {word}")
        else:
            rows[-1] += f" {word}"
    return " \\\n".join(rows)


class Command(Helpful, TyperCommand):
    """One verb."""

    def get_params(self, ctx: Any) -> Any:
        """Returns its options, including `--help`."""
        return _with_plain_flags(super().get_params(ctx))


@dataclass(frozen=True, slots=True)
class Entry:
    """A command of a group: what the group's help lists, and where the command is."""

    name: str
    place: str  #: MODULE:ATTRIBUTE, a function or a `Commands`
    summary: str  #: first paragraph of its help
    panel: str | None = None  #: the heading above it
    hidden: bool = False


class Listed(TyperCommand):
    """A placeholder for a command whose module is not imported yet."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(name=entry.name, help=entry.summary, rich_help_panel=entry.panel, hidden=entry.hidden)
        self.place = entry.place

    def load(self) -> TyperCommand | TyperGroup:
        """Returns the command itself."""
        module, _, attribute = self.place.partition(":")
        target = getattr(import_module(module), attribute)
        if isinstance(target, Commands):
            group = typer.main.get_group(target)
            group.name = self.name
            return group
        single = typer.Typer(add_completion=False)
        single.command(self.name, cls=Command, hidden=self.hidden)(target)
        command = typer.main.get_command(single)
        assert isinstance(command, TyperCommand)
        return command


class Group(Helpful, TyperGroup):
    """Several verbs under one name. The modules of `entries` are imported when called, not when listed."""

    entries: ClassVar[Sequence[Entry]] = ()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands.update((entry.name, Listed(entry)) for entry in self.entries)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Works as Typer's. A command that runs, or whose options are completed, is imported here."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Listed) else command, rest

    def get_params(self, ctx: Any) -> Any:
        """Returns its options, including `--help`."""
        return _with_plain_flags(super().get_params(ctx))


#: What Typer raises for a command, option or value that is not known. It has no public name.
_WrongUse: Any = typer.BadParameter.__mro__[1]


class Root(Group):
    """The group of all commands: `penstock` itself."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Works as Typer's, with errors in the form of ours."""
        with _one_form():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        """Works as Typer's, with errors in the form of ours."""
        with _one_form():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accepts a shell's name after Typer's completion options, which are flags for the current shell."""
        if len(args) == 2 and args[0] in _COMPLETION:
            option, shell = args
            if shell not in _SHELLS:
                raise UsageError(f"{option} {shell!r} is not a supported shell.", f"Write {', '.join(_SHELLS)}.")
            _COMPLETION[option](ctx, self.params[0], shell)  # prints or installs the completion, and ends the process
        return super().parse_args(ctx, args)


@contextmanager
def _one_form() -> Iterator[None]:
    """Turns Typer's errors, which come in a box, into one sentence with a hint."""
    try:
        yield
    except _WrongUse as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":
            raise
        # the words of a library: "Input should be a valid integer, unable to parse string as an integer"
        text = problem.message.removeprefix("Value error, ").replace("Input should", "it should")
        problem.message = text.partition(", unable to parse")[0]
        path = problem.ctx.command_path if problem.ctx is not None else "penstock"
        near = getattr(problem, "possibilities", None)
        what = f"{problem.message}. Did you mean {near[0]}?" if near else problem.format_message()
        raise UsageError(what if what.endswith(("?", ".")) else f"{what}.", f"See `{path} --help`.") from None


def _with_plain_flags(params: Sequence[Any]) -> Sequence[Any]:
    """Hide the type of flags: `--dlq <bool>` looks as if a value must follow."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_bool_flag and param.metavar is None:
            param.metavar = "[SHELL]" if param.opts[0] in _COMPLETION else ""
    return params


class Commands(typer.Typer):
    """Registers commands with the classes above."""

    def __init__(self, entries: Sequence[Entry] = (), cls: type[Group] = Group, **options: Any) -> None:
        """`entries`: commands in other modules, in addition to those registered here."""
        # A class attribute, because Typer creates the group and passes it no arguments of Penstock's.
        own = type(cls.__name__, (cls,), {"entries": tuple(entries)})
        super().__init__(cls=own, **{"no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Works as Typer's."""
        return super().command(name, cls=Command, **options)
