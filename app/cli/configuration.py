"""`penstock config show`: every setting, its value and where that came from. Refuses to show secrets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.output import Format, Output, note, print_json, print_table

_COLUMNS = {"name": "NAME", "value": "VALUE", "source": "SOURCE", "unit": "UNIT"}


def register(cli: typer.Typer) -> None:
    """Adds `config` to the commands."""
    group = typer.Typer(no_args_is_help=True)
    group.command("show")(show)
    group.callback()(config)
    cli.add_typer(group, name="config")


def config() -> None:
    """The settings: PENSTOCK_... in the environment, or in the file named by PENSTOCK_CONFIG.

    \b
    Examples:
      penstock config show
      PENSTOCK_HTTP_PORT=9000 penstock config show --changed
    """


def show(
    changed: Annotated[bool, typer.Option("--changed", help="Only those that are not at their default.")] = False,
    meaning: Annotated[bool, typer.Option("--meaning", help="With what each setting means.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show every setting with its value and where it came from; secrets are masked. Ends with 2 when one is wrong.

    \b
    Examples:
      penstock config show
      penstock config show --changed
      penstock config show --meaning
      penstock config show -o json
    """
    from app.settings import describe, load_settings

    settings = load_settings()
    rows = [asdict(row) for row in describe(settings) if not changed or row.source != "default"]
    for warning in settings.warnings:
        note(warning)
    if output is Format.JSON:
        print_json(rows)
    else:
        print_table(
            {**_COLUMNS, "meaning": "MEANING"} if meaning else _COLUMNS, rows, "All settings have their defaults."
        )
