"""The figures as a table. benchmarks/README.md explains them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.figures import LOWER, Figure, spread

_WIDTH = 200  # a line is not broken on a narrow terminal: half a figure is worse than a scroll bar
_REACHED = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def wide_console() -> Console:
    """Returns standard output, wide enough for a table."""
    return Console(width=max(Console().width, _WIDTH), soft_wrap=True)


def table(ours: Sequence[Figure], others: Sequence[Figure] | None, other_name: str) -> Table:
    """Builds one line for each row; with another implementation its medians and our ratio to them."""
    grid = Table(box=SIMPLE_HEAD)
    names = ["measure", "unit", "min / median / max", "target", "reached"]
    for name in [*names, other_name, "ratio", "of best"] if others is not None else names:
        right = name in ("min / median / max", "target", other_name, "ratio", "of best")
        grid.add_column(name, no_wrap=True, justify="right" if right else "left")
    for number, figure in enumerate(ours):
        row = figure.row
        values = spread((figure.min, figure.median, figure.max), row.digits)
        cells = [row.name, row.unit, values, _target(figure), _REACHED[figure.reached]]
        if others is not None:
            other = others[number]
            ratios = (figure.ratio(other), figure.best_ratio(other))
            cells += [spread((other.min, other.median, other.max), row.digits)]
            cells += ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        grid.add_row(*cells)
    return grid


def failures(figures: Sequence[Figure], name: str) -> list[str]:
    """Returns a sentence for each row that could not be measured."""
    return [f"{name}: {figure.row.name} was not measured: {figure.error}" for figure in figures if figure.error]


def _target(figure: Figure) -> str:
    row = figure.row
    if row.target is None:
        return ""
    return f"{'≤' if row.better == LOWER else '≥'} {row.target:,g}"
