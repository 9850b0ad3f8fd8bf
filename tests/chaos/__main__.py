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
from pathlib import Path
from typing import Any

import orjson

from tests.chaos.disks import mountable
from tests.chaos.running import run
from tests.chaos.scenes import SCENES, Scene
from tests.support.kafka_cluster import KafkaCluster


def _row(scene: Scene, cluster: KafkaCluster, folder: Path) -> dict[str, Any]:
    if scene.disk and (why := mountable()):
        return {"not run here": why, "violations": 0}
    cluster.heal()
    folder.mkdir(parents=True)
    try:
        outcome = run(scene, cluster, folder, short=False)
    except AssertionError as error:  # a process did not do what the scene needs: the others still run
        return {"error": str(error), "violations": 1}
    return {**outcome.figures, "violations": len(outcome.broken), "first": outcome.broken}


def _line(name: str, row: dict[str, Any], seconds: float) -> str:
    for word in ("error", "not run here"):
        if word in row:
            return f"{name}: {word}: {row[word]} ({seconds:.0f} s)"
    fields = ("events", "rejected", "lost", "out_of_order", "duplicates", "stored_twice", "recovery_s", "violations")
    return f"{name}: " + ", ".join(f"{field} {row[field]}" for field in fields) + f" ({seconds:.0f} s)"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    names = [scene.name for scene in SCENES]
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
        for scene in (scene for scene in SCENES if scene.name in options.only):
            began_s = time.monotonic()
            rows[scene.name] = row = _row(scene, cluster, folder / scene.name)
            print(_line(scene.name, row, time.monotonic() - began_s), file=sys.stderr, flush=True)
    failed = [name for name, row in rows.items() if row["violations"]]
    print(orjson.dumps({"failed": failed, "scenes": rows}).decode())
    if failed:
        print(f"the files of this run are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
