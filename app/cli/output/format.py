"""Output of commands: tables for people, JSON for programs, errors as one sentence.

Respects NO_COLOR and output that is not a terminal (rich does).
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from knative.errors import PenstockError

if TYPE_CHECKING:
    from rich.console import RenderableType


_UNFOLDED_CHARS = 10_000
#: Cells with these texts have a colour.
STYLES = {
    **dict.fromkeys(("True", "up", "ok"), "green"),
    **dict.fromkeys(("False", "down", "problem"), "red"),
    **dict.fromkeys(("Unknown", "warning"), "yellow"),
}


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"


class View(StrEnum):
    """The values of `-o` for commands that list rows."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


Views = Annotated[
    View, typer.Option("--output", "-o", help="table or wide for people, json or yaml for programs, name for xargs.")
]
Output = Annotated[Format, typer.Option("--output", "-o", help="table for people, json for programs.")]


def write_any_text() -> None:
    """From now on, a character that the encoding of the output does not have is printed as an escape sequence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def writes(characters: str) -> bool:
    """Whether the encoding of the standard output has these characters."""
    try:
        characters.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def print_json(value: object) -> None:
    """One JSON value on one line of its own."""
    text = json.dumps(value, ensure_ascii=False)
    print(text if writes(text) else json.dumps(value), flush=True)


def print_yaml(value: object) -> None:
    """One YAML document, with the same value as `print_json`."""
    import yaml

    plain = json.loads(json.dumps(value))  # safe_dump rejects enums and other subclasses of str that JSON accepts
    print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), end="", flush=True)


def print_table(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], empty: str) -> None:
    """`columns`: key of the rows -> heading. Without rows it prints `empty` instead."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:  # a file, or a program that reads lines: one row is one line
        console.width = _UNFOLDED_CHARS
    console.print(table_of(columns, rows, empty))


def table_of(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], empty: str) -> RenderableType:
    """The same table as a value that rich prints."""
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return Text(empty)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(columns.values()):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in columns))
    return table


@dataclass(frozen=True, slots=True)
class Listing:
    """How rows of one kind are shown: `columns` maps keys of rows to headings, `name` is the key for `-o name`."""

    columns: Mapping[str, str]
    name: str
    empty: str
    wide: Mapping[str, str] = field(default_factory=dict)  #: columns only for `-o wide`, after the others

    def show(self, rows: Sequence[Mapping[str, object]], view: View) -> None:
        """Print the rows in this view; each name once, in the order of the rows."""
        if view is View.JSON:
            print_json(rows)
        elif view is View.YAML:
            print_yaml(rows)
        elif view is View.NAME:
            for name in dict.fromkeys(str(row[self.name]) for row in rows):
                print(name)
        else:
            print_table(self.columns_of(view), rows, self.empty)

    def columns_of(self, view: View) -> Mapping[str, str]:
        """The columns of a table."""
        return {**self.columns, **self.wide} if view is View.WIDE else self.columns


def escaped(line: str) -> str:
    """A line of what others wrote, such as a reason, an id or a header, without terminal control sequences."""
    return line if line.isprintable() else ascii(line)[1:-1]


def _cell(value: object) -> str:
    from rich.markup import escape

    text = "" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    text = "\n".join(map(escaped, text.split("\n")))
    style = STYLES.get(text)
    return f"[{style}]{text}[/]" if style else escape(text)


def print_error(error: PenstockError) -> None:
    """Print the error in red and its hint below, to stderr."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(
        Text.assemble((error.what, "red"), f" {error.hint}" if error.hint else "")
    )


def note(text: str) -> None:
    """Print a line for the user to stderr, so that stdout has only the output for programs."""
    print(text, file=sys.stderr, flush=True)
