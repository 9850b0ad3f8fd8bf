"""Writes the manual pages of the commands from their help: `python -m app.cli.manual [--check]`.

    app/cli -> man/man1/penstock.1, penstock-send.1, penstock-dlq-list.1, ...

With `--check` it writes nothing and exits with 1 when a page differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer.main

from app.cli import cli
from app.cli.commands import AS_IT_IS, Listed
from app.settings.generated import REPOSITORY, write_or_check

FOLDER = REPOSITORY / "man" / "man1"
_FIRST_LETTERS = re.compile(r"^(?=[.'])", re.MULTILINE)  # a line that begins with one of these would be a request


def pages() -> dict[Path, str]:
    """Returns file -> text of each page."""
    return {FOLDER / f"{name.replace(' ', '-')}.1": text for name, text in _pages("penstock", None)}


def _pages(name: str, parent: Any) -> Iterator[tuple[str, str]]:
    command = typer.main.get_command(cli) if parent is None else parent.commands[name.rpartition(" ")[2]]
    if isinstance(command, Listed):
        command = command.load()
    if not command.hidden:
        yield name, "\n".join(_page(name, command)) + "\n"
        for inner in getattr(command, "commands", {}):
            yield from _pages(f"{name} {inner}", command)


def _page(name: str, command: Any) -> Iterator[str]:
    title, context = name.replace(" ", "-"), command.make_context(name, [], resilient_parsing=True)
    summary, *paragraphs = (command.help or "").split("\n\n")
    # No date: a page must not differ from day to day.
    yield f'.TH {_plain(title.upper())} 1 "" "Penstock {version("penstock")}" "Penstock"'
    yield from (".SH NAME", f"{_plain(title)} \\- {_plain(summary.rstrip('.'))}")
    yield from (".SH SYNOPSIS", f"\\fB{_plain(name)}\\fR {_plain(' '.join(command.collect_usage_pieces(context)))}")
    yield ".SH DESCRIPTION"
    for paragraph in (summary, *paragraphs):
        yield from _paragraph(paragraph)
    records = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    yield from _rows("OPTIONS", records)
    listed = [subcommand for subcommand in getattr(command, "commands", {}).values() if not subcommand.hidden]
    yield from _rows(
        "COMMANDS", [(f"{name} {subcommand.name}", subcommand.get_short_help_str(200)) for subcommand in listed]
    )
    if " " in name:
        yield from (".SH SEE ALSO", f"\\fB{_plain(name.rpartition(' ')[0].replace(' ', '-'))}\\fR(1)")


def _paragraph(text: str) -> Iterator[str]:
    as_it_is, (first, *lines) = text.startswith(AS_IT_IS), text.removeprefix(AS_IT_IS).strip("\n").split("\n")
    if not as_it_is:
        yield from (".PP", _plain(" ".join(line.strip() for line in (first, *lines))))
        return
    yield from (".SH EXAMPLES" if first == "Examples:" else f".PP\n{_plain(first)}", ".nf")
    yield from (*(_plain(line.removeprefix("  ")) for line in lines), ".fi")


def _rows(heading: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {heading}"
    for name, meaning in rows:
        yield from (".TP", f"\\fB{_plain(name)}\\fR", _plain(meaning))


def _plain(text: str) -> str:
    """Returns the text as it must be written to be read as it is."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    )
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return _FIRST_LETTERS.sub(r"\\&", text)


if __name__ == "__main__":
    raise SystemExit(write_or_check(pages(), sys.argv[1:]))
