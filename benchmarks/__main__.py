"""`python -m benchmarks`: measure, print a table, write `benchmarks/results/latest.json`.

Starts its own Kafka and its own processes and ends them; refuses to judge: a reader compares with an earlier run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from app.embedded import EmbeddedKafka
from benchmarks import measure
from benchmarks.measure import Result, Size
from tests.processes import REPOSITORY
from tests.resources import ORDERS

LATEST = Path(__file__).parent / "results" / "latest.json"

#: name -> what measures it, given Kafka's address, a folder and a size.
MEASURES: dict[str, Callable[[str, Path, Size], list[Result]]] = {
    "ingress": measure.ingress,
    **{f"dispatch-{order}": partial(measure.dispatch, order=order) for order in ORDERS},
}


def show(results: list[Result], console: Console) -> None:
    """The table."""
    table = Table("what", "unit", "min", "median", "max", "target", title="Penstock, per event")
    for one in results:
        target = "" if one.target is None else f"{one.target:g}"
        table.add_row(one.name, one.unit, f"{one.min:g}", f"{one.median:g}", f"{one.max:g}", target)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="CPU per event, at ingress and dispatch.")
    parser.add_argument("--quick", action="store_true", help="one short round each: does it work, not how fast it is")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="only this; may be given again")
    parser.add_argument("--output", type=Path, default=LATEST, help="where the figures go as JSON")
    given = parser.parse_args(arguments)
    size = measure.QUICK if given.quick else measure.FULL
    console = Console()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        jars = REPOSITORY / ".penstock" / "kafka"
        with EmbeddedKafka(folder / "kafka", port=0, jars_root=jars) as kafka:
            for what in given.only or MEASURES:
                console.print(f"measuring {what} ...")
                results += MEASURES[what](kafka.bootstrap, folder / what, size)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps([asdict(one) for one in results], indent=2) + "\n")
    show(results, console)
    console.print(f"written to {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
