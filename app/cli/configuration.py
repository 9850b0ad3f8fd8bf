"""`penstock config show`: every setting, its value, and where the value came from. Does not show secrets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.commands import Commands
from app.cli.output.format import Listing, View, Views, note
from app.settings.load import describe, load_settings

_LISTING = Listing(
    columns={"name": "NAME", "value": "VALUE", "source": "SOURCE", "unit": "UNIT"},
    wide={"meaning": "MEANING"},
    name="name",
    empty="All settings have their defaults.",
)


group = Commands()


@group.callback()
def config() -> None:
    """Show the settings and where each value comes from.

    Settings are PENSTOCK_... in the environment, or in the file that PENSTOCK_CONFIG names.

    \b
    Examples:
      penstock config show
      PENSTOCK_HTTP_PORT=9000 penstock config show --changed
    """


@group.command("show")
def show(
    changed: Annotated[bool, typer.Option("--changed", help="Show only settings that are set somewhere.")] = False,
    meaning: Annotated[
        bool, typer.Option("--meaning", help="Also show what each setting means, as -o wide does.")
    ] = False,
    output: Views = View.TABLE,
) -> None:
    """Show every setting, its value and its source; secrets are masked. Exit code: 2 if a value is not valid.

    \b
    Examples:
      penstock config show
      penstock config show --changed
      penstock config show --meaning
      penstock config show -o json
    """
    settings = load_settings()
    rows = [asdict(row) for row in describe(settings) if not changed or row.source != "default"]
    for warning in settings.warnings:
        note(warning)
    _LISTING.show(rows, View.WIDE if meaning and output is View.TABLE else output)
