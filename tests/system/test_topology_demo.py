"""`make demo-topology`, short: what examples/topology plants is found with real traffic, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analytics.topology.model.document import from_json

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).parents[2]


def test_planted_findings_and_no_others(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli.demos.topology", "--seconds", "3", "--out", str(tmp_path / "report")],
        capture_output=True, text=True, check=False, timeout=400, cwd=REPOSITORY,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    reported = json.loads(done.stdout.splitlines()[-1])
    assert (reported["missing"], reported["unexpected"], reported["findings"]) == ([], [], 11)
    document = from_json((tmp_path / "report" / "topology.json").read_bytes())
    assert {"source:/web", "channel:shop/shipments"} <= {vertex.id for vertex in document.vertices}
    assert "Events go in a loop: games/ping, games/pong" in (tmp_path / "report" / "report.html").read_text()
