"""`python -m tests.chaos [--list] [--only NAME ...]`: every scene, a line for each, and one JSON object at the end.

Exit code 1 when the checker found anything. Nothing is written but below a temporary folder, which stays when a scene
failed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.chaos import kafka, running
from tests.chaos.disks import mountable
from tests.chaos.kafka import Breaks, coordinator, leader
from tests.chaos.scene import Scene, run
from tests.chaos.scenes import SCENES
from tests.chaos.scenes import Scene as Broken
from tests.installation import Installation
from tests.kafka_cluster import KafkaCluster
from tests.ledger.checker import Verdict

_SHOWN_VIOLATIONS = 20
_ENV = {"PENSTOCK_PRODUCE_TIMEOUT_S": "3", "PENSTOCK_INTERNAL_REPLICATION": "3"}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of Kafka or of the network before it, with so many workers."""

    name: str
    seconds: float
    breaks: Breaks
    workers: int = 2


FAILURES = (
    Failure("coordinator-frozen-5s", 5, kafka.frozen(coordinator)),
    Failure("coordinator-frozen-15s-one-worker", 15, kafka.frozen(coordinator), workers=1),
    Failure("coordinator-frozen-15s", 15, kafka.frozen(coordinator)),
    Failure("coordinator-frozen-30s", 30, kafka.frozen(coordinator)),
    Failure("coordinator-killed-one-worker", 5, kafka.killed(coordinator), workers=1),
    Failure("coordinator-killed", 5, kafka.killed(coordinator)),
    Failure("leader-frozen", 15, kafka.frozen(leader)),
    Failure("leader-killed", 5, kafka.killed(leader)),
    Failure("all-killed", 5, kafka.all_killed),
    Failure("below-min-isr", 10, kafka.below_min_isr),
    Failure("rolling-restart", 0, kafka.rolling_restart),
    Failure("blackhole-45s-one-worker", 45, kafka.network(lambda broker: broker.proxy.blackhole()), workers=1),
    Failure("blackhole-45s", 45, kafka.network(lambda broker: broker.proxy.blackhole())),
    Failure("refused", 15, kafka.network(lambda broker: broker.proxy.refuse())),
    Failure("resets-3min", 180, kafka.network(lambda broker: broker.proxy.reset(1.0))),
    Failure("latency-200ms", 20, kafka.network(lambda broker: broker.proxy.delay(0.2))),
    Failure("64-kB/s", 20, kafka.network(lambda broker: broker.proxy.limit(64_000))),
)


#: What else is broken: disks, workers, resources.
OTHERS = tuple(scene for scene in SCENES if scene.long is not None)


def _break(other: Broken, cluster: KafkaCluster, folder: Path) -> dict[str, Any]:
    if other.disk and (why := mountable()):
        return {"not run here": why, "violations": 0}
    cluster.heal()
    folder.mkdir(parents=True)
    outcome = running.run(other, cluster, folder, short=False)
    return {**outcome.figures, "violations": len(outcome.broken), "first": outcome.broken}


def _fail(failure: Failure, cluster: KafkaCluster, folder: Path) -> dict[str, Any]:
    cluster.heal()
    folder.mkdir(parents=True)
    installation = Installation(cluster.bootstrap, folder, partitions=4, replication=3, env=_ENV)
    scene = Scene(workers=failure.workers)
    return _row(run(installation, folder, scene, kafka.lasting(failure.seconds, failure.breaks, cluster, installation)))


def _row(verdict: Verdict) -> dict[str, Any]:
    found = [f"{violation.kind}: {violation.message}" for violation in verdict.violations]
    return {**asdict(verdict.report), "violations": len(found), "first": found[:_SHOWN_VIOLATIONS]}


def _line(name: str, row: dict[str, Any], seconds: float) -> str:
    for word in ("error", "not run here"):
        if word in row:
            return f"{name}: {word}: {row[word]} ({seconds:.0f} s)"
    shown = ("events", "rejected", "lost", "out_of_order", "duplicates", "recovery_max_s", "violations")
    return f"{name}: " + ", ".join(f"{field} {row[field]}" for field in shown) + f" ({seconds:.0f} s)"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    runs = {one.name: partial(_fail, one) for one in FAILURES} | {one.name: partial(_break, one) for one in OTHERS}
    names = list(runs)
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Break things under load and judge.")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help="these scenes only")
    parser.add_argument("--list", action="store_true", help="print the names of the scenes")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(names))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    rows: dict[str, dict[str, Any]] = {}
    with KafkaCluster(folder / "kafka") as cluster:
        for name in (name for name in names if name in options.only):
            began_s = time.monotonic()
            try:
                row = runs[name](cluster, folder / name.replace("/", "-"))
            except AssertionError as error:  # a process did not do what the scene needs: the others still run
                row = {"error": str(error), "violations": 1}
            rows[name] = row
            print(_line(name, row, time.monotonic() - began_s), file=sys.stderr, flush=True)
    failed = [name for name, row in rows.items() if row["violations"]]
    print(orjson.dumps({"failed": failed, "scenes": rows}).decode())
    if failed:
        print(f"the files of this run are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
