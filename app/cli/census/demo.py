"""`penstock census demo`: runs the whole demo, and compares the totals with a plain count."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.census.options import Engine
from app.cli.options.extras import need_or_install
from app.cli.options.spark import Conf, Master
from app.cli.output.format import print_json
from app.settings.extras import ANALYTICS, SPARK_MODULES


def demo(
    engine: Annotated[Engine, typer.Option("--engine", help="What counts.")] = Engine.SPARK,
    lines: Annotated[
        int, typer.Option("--lines", min=1, max=1_000_000, help="Lines in each of the four files.")
    ] = 2_003,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="Kill compute and results half-way (SIGKILL).")] = True,
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of a running Kafka; by default it starts one.")] = "",
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Run everything on its own Kafka and kill parts of it; the last line is JSON with totals by year and code.

    Exit code: 0 only if the totals equal a plain count of the same files.

    \b
    Examples:
      penstock census demo
      penstock census demo --engine faust
      penstock census demo --lines 100000 --no-kill 2>/dev/null | tail -1
    """
    # Here, because --help would take 0.2 s longer.
    from app.cli.demos.census import DemoConfig, run

    if engine is Engine.SPARK:
        need_or_install(ANALYTICS, "`penstock census demo --engine spark`", SPARK_MODULES)
    report = run(DemoConfig(engine.value, lines, kill, master or "local[2]", tuple(conf or ()), kafka))
    print_json(report)
    if not report["equal"]:
        raise typer.Exit(1)
