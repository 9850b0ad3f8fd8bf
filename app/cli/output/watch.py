"""`--watch`: repeats a query until Ctrl-C; refreshes in place on a terminal, else prints one result after the other.

While Kafka is unavailable, says so and waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from app.cli.output.format import Listing, View, note
from knative.errors import NotReadyError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", min=0.2, help="Seconds between updates with --watch.")]

T = TypeVar("T")
#: A result -> its tables, each with its rows.
Tables = Callable[[T], Sequence[tuple[Listing, Sequence[dict[str, object]]]]]


def watch(read: Callable[[], T], show: Callable[[T], None], tables: Tables[T], every_s: float, output: View) -> None:
    """Show results until Ctrl-C: on a terminal their `tables`, in place; elsewhere one after the other, by `show`."""
    from rich.console import Console

    console = Console()
    with suppress(KeyboardInterrupt):
        if console.is_terminal and output in (View.TABLE, View.WIDE):
            _in_place(read, tables, every_s, output, console)
        else:
            _one_after_the_other(read, show, every_s)


def _one_after_the_other(read: Callable[[], T], show: Callable[[T], None], every_s: float) -> NoReturn:
    while True:
        try:
            show(read())
        except NotReadyError as problem:
            note(str(problem))
        time.sleep(every_s)


def show_next(listing: Listing, rows: Sequence[dict[str, object]], output: View) -> None:
    """Print one result of several, separated from the next."""
    listing.show(rows, output)
    separate(output)


def separate(output: View) -> None:
    """Print the separator between two results."""
    if output in (View.TABLE, View.WIDE):
        print(flush=True)
    elif output is View.YAML:
        print("---", flush=True)


def _in_place(read: Callable[[], T], tables: Tables[T], every_s: float, output: View, console: Console) -> NoReturn:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            parts: list[RenderableType] = [Text(f"{time.strftime('%H:%M:%S')}, every {every_s:g} s; Ctrl-C stops")]
            try:
                result = read()
            except NotReadyError as problem:
                parts.append(Text(str(problem), "red"))
            else:
                for listing, rows in tables(result):
                    parts += [Text(""), listing.table(rows, output)]
            live.update(Group(*parts), refresh=True)
            time.sleep(every_s)
