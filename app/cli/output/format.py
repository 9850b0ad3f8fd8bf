"""Output of commands: tables for people, JSON for programs, errors as one sentence.

Respects NO_COLOR and output that is not a terminal (rich does).
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from app.cli.output.time import age
from knative.errors import PenstockError

if TYPE_CHECKING:
    from rich.text import Text

#: Cells with these texts have a colour.
STYLES = {
    **dict.fromkeys(("True", "up", "ok"), "green"),
    **dict.fromkeys(("False", "down", "problem", "failed"), "red"),
    **dict.fromkeys(("Unknown", "warning", "degraded"), "yellow"),
    **dict.fromkeys(("idle", "skipped"), "dim"),
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


def writes(characters: str, stream: TextIO | None = None) -> bool:
    """Returns whether the encoding of `stream` has these characters; `stream` None = the standard output."""
    try:
        characters.encode(getattr(stream or sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def print_json(value: object) -> None:
    """Print one JSON value on one line of its own."""
    text = json.dumps(value, ensure_ascii=False)
    print(text if writes(text) else json.dumps(value), flush=True)


def print_yaml(value: object) -> None:
    """Print one YAML document, with the same value as `print_json`."""
    import yaml

    plain = json.loads(json.dumps(value))  # safe_dump rejects enums and other subclasses of str that JSON accepts
    print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), end="", flush=True)


def print_table(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], empty: str) -> None:
    """Print rows as a table; without rows, print `empty`. `columns`: key of the rows -> heading."""
    _print(table_of(columns, rows, empty))


def _print(table: Text) -> None:
    from rich.console import Console

    Console(soft_wrap=True).print(table, highlight=False)


def table_of(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], empty: str) -> Text:
    """Returns the table of `print_table` as a value that rich prints. A row is one line, however long: a folded cell
    cannot be copied or found with grep. A terminal that is too narrow wraps the line."""
    from rich.cells import cell_len
    from rich.text import Text

    if not rows:
        return Text(empty)
    cells = [list(columns.values()), *([_cell(row.get(key)) for key in columns] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    table = Text(no_wrap=False, overflow="fold")
    for number, line in enumerate(cells):
        end = max((place for place, cell in enumerate(line) if cell), default=0)
        for place, cell in enumerate(line[: end + 1]):
            table.append(cell, "bold" if number == 0 else STYLES.get(cell))
            if place < end:
                table.append(" " * (widths[place] - cell_len(cell) + 2))
        table.append("\n" if number < len(cells) - 1 else "")
    return table


@dataclass(frozen=True, slots=True)
class Listing:
    """How rows of one kind are shown: `columns` maps keys of rows to headings, `name` is the key for `-o name`, and
    `kind` that of the kind to print before it, as `kubectl` does. The column that may be long is the last one."""

    columns: Mapping[str, str]
    name: str
    empty: str
    #: Columns only for `-o wide`, after the others, and those of the others that must come later there.
    wide: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    times: frozenset[str] = frozenset()  #: keys of RFC 3339 times, which tables show as ages

    def show(self, rows: Sequence[Mapping[str, object]], view: View) -> None:
        """Print the rows in this view; each name once, in the order of the rows."""
        if view is View.JSON:
            print_json(rows)
        elif view is View.YAML:
            print_yaml(rows)
        elif view is View.NAME:
            for name in dict.fromkeys(self._name_of(row) for row in rows):
                print(name)
        else:
            _print(self.table(rows, view))

    def _name_of(self, row: Mapping[str, object]) -> str:
        prefix = f"{row[self.kind]}/".lower().removeprefix("kafka") if self.kind and row[self.kind] else ""
        return f"{prefix}{row[self.name]}"

    def table(self, rows: Sequence[Mapping[str, object]], view: View) -> Text:
        """Returns the rows as a table."""
        now_s = time.time()
        aged = [{**row, **{key: age(row.get(key), now_s) for key in self.times}} for row in rows]
        return table_of(self.columns_of(view), aged, self.empty)

    def columns_of(self, view: View) -> Mapping[str, str]:
        """Returns the columns of a table."""
        if view is not View.WIDE:
            return self.columns
        return {**{key: text for key, text in self.columns.items() if key not in self.wide}, **self.wide}


def escaped(line: str) -> str:
    """Returns a line of what others wrote, such as a reason, an id or a header, without terminal control sequences."""
    return line if line.isprintable() else ascii(line)[1:-1]


def _cell(value: object) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return " ".join(map(escaped, text.split("\n")))


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
