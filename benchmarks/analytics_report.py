"""Measures the report page in headless Chromium: `python -m benchmarks.analytics_report [--vertices N ...]`.

Each size: a made-up topology -> page -> file, loaded by a browser `--rounds` times after one that is not counted.
`ready_ms` is from the start of the navigation to the moment the map is drawn and takes clicks and keys (the page's own
mark); `cpu_ms` is the CPU time of the page's thread until then, which a busy machine changes less; `open_ms` how long
it takes to open a namespace. One JSON line for each size; the target is that of the collapsed view of 5,000 vertices.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from analytics.topology.report import render
from tests.support import topologies
from tests.support.chromium import Chromium

SIZES = (500, 5_000)
TARGET_VERTICES, TARGET_MS = 5_000, 2_000.0

_READY = "performance.getEntriesByName('ready')[0].startTime"
#: Opens a namespace as a user does, by the search, and tells how long until it was on the canvas.
_OPEN = """(() => {
  const began = performance.now();
  document.querySelector('#table-vertices tbody a').click();
  return performance.now() - began;
})()"""


def measure(browser: Chromium, folder: Path, vertices: int, rounds: int) -> dict[str, Any]:
    """Measures one size."""
    topology = topologies.large(vertices)
    began = time.perf_counter()
    text = render(topology)
    render_s = time.perf_counter() - began
    path = folder / f"{vertices}.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path).close()
    ready, cpu, opening = [], [], []
    for _ in range(rounds):
        page = browser.open(path)
        ready.append(float(page.evaluate(_READY)))
        cpu.append(1e3 * page.metric("TaskDuration"))
        opening.append(float(page.evaluate(_OPEN)))
        if page.complaints or page.requests:
            raise RuntimeError(f"the page complains or asks for something: {page.complaints} {page.requests}")
        page.close()
    median_ms = round(statistics.median(ready))
    return {
        "vertices": len(topology.vertices),
        "edges": len(topology.edges),
        "findings": len(topology.findings),
        "render_s": round(render_s, 2),
        "page_mib": round(len(text.encode()) / 2**20, 2),
        "ready_ms": {"min": round(min(ready)), "median": median_ms, "max": round(max(ready))},
        "cpu_ms": round(statistics.median(cpu)),
        "open_ms": round(statistics.median(opening)),
        "target_ms": TARGET_MS if vertices == TARGET_VERTICES else None,
    }


def main() -> None:
    """Measures each size, in one browser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_report", description=__doc__)
    parser.add_argument("--vertices", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        with Chromium() as browser:
            for vertices in given.vertices:
                print(json.dumps(measure(browser, folder, vertices, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
