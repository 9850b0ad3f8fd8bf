"""`penstock census generate`: files like those of the census. `analytics/census` makes the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analytics.census.generator import Recipe, file_name, write
from analytics.census.sources import parse_months, parse_years
from app.cli.census.options import Months, Years
from app.cli.output.format import Format, Output, print_json, print_table
from knative.errors import PenstockError, UsageError, os_reason

_FOLDER = Path(".penstock/census/files")
_MADE_COLUMNS = {"file": "FILE", "year": "YEAR", "month": "MONTH", "lines": "LINES", "wrong": "WRONG", "mib": "MIB"}


def generate(
    years: Years = "2018,2019",
    months: Months = "jan,feb",
    lines: Annotated[int, typer.Option("--lines", min=0, max=40_000_000, help="Lines in each file.")] = 10_003,
    folder: Annotated[Path, typer.Option("--output-dir", help="Output directory for YEAR/FILE.")] = _FOLDER,
    seed: Annotated[int, typer.Option("--seed", help="Random seed; the same seed gives the same files.")] = 1,
    short: Annotated[float, typer.Option("--short", min=0, max=1, help="Share of lines that are too short.")] = 0.0,
    out_of_range: Annotated[
        float, typer.Option("--out-of-range", min=0, max=1, help="Share of lines with an unknown code.")
    ] = 0.0,
    no_code: Annotated[
        float, typer.Option("--no-code", min=0, max=1, help="Share of lines whose code is not a number.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Generate census-like files: gzip, fixed width, 1,000 characters per line, the same for the same options.

    \b
    Examples:
      penstock census generate
      penstock census generate --years 2019 --months '*' --lines 100000
      penstock census generate --short 0.001 --out-of-range 0.001 --output-dir /tmp/census --force
    """
    if short + out_of_range + no_code > 1:
        raise UsageError(
            "The shares of wrong lines add up to more than 1.", "Choose shares that add up to less than 1."
        )
    wanted = [(year, month) for year in parse_years(years) for month in parse_months(months)]
    there = [path for year, month in wanted if (path := folder / str(year) / file_name(year, month)).exists()]
    if there and not force:
        raise UsageError(f"{there[0]} already exists.", "Use --force to replace it, or choose another --output-dir.")
    recipe = Recipe(lines, seed, short, out_of_range, no_code)
    rows: list[dict[str, object]] = []
    for year, month in wanted:
        try:
            made = write(folder, year, month, recipe)
        except OSError as problem:
            raise PenstockError(
                f"{folder} cannot be written to ({os_reason(problem)}).", "Choose another --output-dir."
            ) from problem
        wrong = sum(count for kind, count in made.kinds.items() if isinstance(kind, str))
        mib = round(made.path.stat().st_size / 1_048_576, 1)
        rows.append(
            {"file": str(made.path), "year": year, "month": month, "lines": made.lines, "wrong": wrong, "mib": mib}
        )
    if output is Format.JSON:
        print_json(rows)
    else:
        print_table(_MADE_COLUMNS, rows, "")
