"""The installer as make runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[4]


def test_a_failure_ends_with_the_output_of_pip(tmp_path: Path) -> None:
    """As make runs it: alone, with the standard library."""
    script = _REPOSITORY / "app" / "local" / "install.py"
    command = [sys.executable, "-I", str(script), "--no-index", "-r", str(tmp_path / "none.lock")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "none.lock" in done.stderr
