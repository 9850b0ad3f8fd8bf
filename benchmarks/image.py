"""`python -m benchmarks.image`: the size of the workers' image, and what a worker costs in a container of it.

Builds the image without a registry, as the tests of images do: needs root, and the programs that these need. Prints a
table and writes `benchmarks/results/image.json`. Targets do not affect the exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.local.kafka import EmbeddedKafka
from benchmarks.figures import Figure, Row, as_json
from benchmarks.report import table, wide_console
from tests.image.containers import Container, Image, missing
from tests.support.processes import REPOSITORY, free_port

SIZE = Row("image of workers, beyond its base", "MB", 180, digits=0)
START = Row("worker in a container, all roles: CPU from start to ready", "s", 1.5, digits=2)
REST = Row("worker in a container, all roles, at rest: RSS", "MB")
RESULTS = Path(__file__).parent / "results" / "image.json"
_ROUNDS, _REST_S = 3, 5.0
_KAFKA_LIMIT_S = 180.0


def measure(folder: Path) -> list[Figure]:
    """Build the image and start workers from it, one after the other. Raises Failed."""
    resources, own = folder / "resources", folder / "image"
    for path in (resources, own):
        path.mkdir()
    image = Image("worker", own)
    kafka = EmbeddedKafka(folder / "kafka", port=0, jars_root=REPOSITORY / ".penstock" / "kafka")
    kafka.start(_KAFKA_LIMIT_S)
    try:
        rounds = [_worker(image, kafka.bootstrap, folder, resources) for _ in range(_ROUNDS)]
    finally:
        kafka.stop()
    starts_s, rests_mb = zip(*rounds, strict=True)
    return [Figure(SIZE, (image.own_bytes() / 1e6,)), Figure(START, starts_s), Figure(REST, rests_mb)]


def _worker(image: Image, bootstrap: str, folder: Path, resources: Path) -> tuple[float, float]:
    """Returns CPU seconds until it is ready, and MB after some seconds without events."""
    port = free_port()
    env = {
        "PORT": str(port),
        "PENSTOCK_ADMIN_PORT": str(free_port()),
        "PENSTOCK_BIND": "127.0.0.1",
        "PENSTOCK_KAFKA": bootstrap,
        "PENSTOCK_RESOURCES": "file:/resources",
    }
    with Container(image, folder, env=env, mounts={"/resources": resources}) as container:
        container.wait_ready(port)
        start_s = container.cpu_s()
        time.sleep(_REST_S)
        pages = int(Path(f"/proc/{container.pid}/statm").read_text().split()[1])
        container.terminate()
    return start_s, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image", description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, metavar="FILE", default=RESULTS, help="JSON file for the figures")
    given = parser.parse_args(arguments)
    if lacking := missing():
        sys.stderr.write(f"This needs {', '.join(lacking)}; apt-get install has the programs.\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as name:
        figures = measure(Path(name))
    given.output.write_text(json.dumps(as_json(figures), indent=2) + "\n")
    wide_console().print(table(figures, None, ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
