"""The progress of a download of jars: a bar on a terminal, otherwise lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.output.format import note
from app.local.kafka.jar_sets import KAFKA, JarSet
from app.local.kafka.jars import Progress


@contextmanager
def jar_progress(jars: JarSet = KAFKA) -> Iterator[Progress]:
    """Shows the download of jars until the last one; nothing if they are here already."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    what = f"Downloading {jars.title} (once)"
    console = Console(stderr=True)
    if not console.is_terminal:

        def line(arrived: int, expected: int) -> None:
            if arrived == 0:
                note(f"{what}: {expected} jars, {jars.megabytes} MB")
            elif arrived % 10 == 0 or arrived == expected:
                note(f"  {arrived} of {expected}")

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)

    def move(arrived: int, expected: int) -> None:
        if not bar.task_ids:
            bar.add_task(f"{what}, {jars.megabytes} MB", total=expected)
            bar.start()
        bar.update(bar.task_ids[0], completed=arrived)
        if arrived == expected:
            bar.stop()  # the terminal belongs to other output from here on

    try:
        yield move
    finally:
        bar.stop()
