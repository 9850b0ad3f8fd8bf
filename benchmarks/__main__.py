"""`python -m benchmarks`: measure everything, print a table, write `benchmarks/results/latest.json`.

Starts and stops its own Kafka and processes. Exit code: 0 if everything was measured, whether or not targets are
reached; 1 if a row could not be measured. The table and the file name that row.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from app.local.kafka import EmbeddedKafka
from benchmarks.figures import NOT_OFFERED, Figure, as_json
from benchmarks.implementation import OWN, Implementation
from benchmarks.lab import Lab
from benchmarks.measures import (
    analytics,
    cluster,
    console,
    draining,
    faults,
    filters,
    passing,
    resting,
    several,
    slow,
    taking_in,
)
from benchmarks.report import failures, table, wide_console
from benchmarks.rounds import Say, run
from knative.errors import PenstockError
from tests.support.proc import busy_cores
from tests.support.processes import REPOSITORY

LATEST = Path(__file__).parent / "results" / "latest.json"
MEASURES = (
    *taking_in.MEASURES,
    *several.MEASURES,
    *draining.MEASURES,
    *slow.MEASURES,
    *passing.MEASURES,
    *resting.MEASURES,
    *faults.MEASURES,
    *filters.MEASURES,
    *console.MEASURES,
    *cluster.MEASURES,
    *analytics.MEASURES,
)
ROUNDS, QUICK_SCALE = 3, 0.1
_KAFKA_LIMIT_S = 180.0
_BUSY_S = 1.0


def _busy() -> float:
    return busy_cores(_BUSY_S)


def _implementation(text: str) -> Implementation:
    try:
        return Implementation(Path(text).absolute())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def command_line() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    names = "\n".join(f"  {measure.name:24} {measure.about}" for measure in MEASURES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Penstock: CPU, rates, memory, delays, and what is lost or repeated.",
        epilog=f"measures:\n{names}\n\nHow to read the figures, and what an implementation is: benchmarks/README.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choices = [measure.name for measure in MEASURES]
    parser.add_argument(
        "--only", action="append", choices=choices, metavar="NAME", help="only this measure; may be repeated"
    )
    parser.add_argument("--rounds", type=_positive, default=None, help=f"rounds of each measure ({ROUNDS}; 1 of some)")
    parser.add_argument(
        "--quick", action="store_true", help="one short round: checks that it works, not how fast it is"
    )
    parser.add_argument(
        "--beside",
        type=_implementation,
        metavar="FOLDER",
        help="another implementation, measured in turns, with ratios",
    )
    parser.add_argument(
        "--implementation", type=_implementation, metavar="FOLDER", default=str(OWN), help="measure this, not Penstock"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", default=LATEST, help="JSON file for the figures")
    return parser


def conclude(output: Path, names: Sequence[str], sides: Sequence[Sequence[Figure]], say: Say, console: Console) -> int:
    """Write the file, print the table and what failed; the exit code."""
    ours, others = sides[0], sides[1] if len(sides) > 1 else None
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(as_json(ours, others), indent=2) + "\n")
    console.print(table(ours, others, names[-1]))
    for name, figures in zip(names, sides, strict=True):
        # Another implementation may lack most of ours, and its empty cells say so.
        listed = [figure for figure in figures if figures is ours or figure.error != NOT_OFFERED]
        for problem in failures(listed, name):
            console.print(problem, markup=False)
    say(f"written to {output}")
    return 1 if failures(ours, "") else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    given = command_line().parse_args(arguments)
    console = wide_console()
    measures = [measure for measure in MEASURES if not given.only or measure.name in given.only]
    implementations = [given.implementation, *([given.beside] if given.beside else [])]
    rounds = given.rounds or (1 if given.quick else ROUNDS)
    started_s = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[{time.monotonic() - started_s:4.0f} s] {text}", markup=False)

    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
            folder = Path(name)
            kafka = EmbeddedKafka(folder / "kafka", port=0, jars_root=REPOSITORY / ".penstock" / "kafka")
            kafka.start(_KAFKA_LIMIT_S)
            try:
                lab = Lab(kafka.bootstrap, folder, QUICK_SCALE if given.quick else 1.0)
                results = run(measures, lab, implementations, rounds, say, given.rounds is not None, _busy)
            finally:
                kafka.stop()
    except PenstockError as error:  # the embedded Kafka's: nothing was measured
        say(f"{error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; no file was written")
        return 130
    return conclude(given.output, [implementation.name for implementation in implementations], results, say, console)


if __name__ == "__main__":
    sys.exit(main())
