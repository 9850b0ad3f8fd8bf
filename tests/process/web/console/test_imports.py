"""A worker imports what the console needs when the console is on, and templates when somebody looks."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BUILD = """
import sys
from app.compose import build
from app.settings.load import Settings
app = build(Settings(console=sys.argv[1]))
print({"jinja2", "web.console.server", "web.console.pages.overview"} & set(sys.modules))
"""


@pytest.mark.parametrize(
    ("console", "imported"), [("off", set()), ("write", {"web.console.server", "web.console.pages.overview"})]
)
def test_what_a_worker_imports(console: str, imported: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, console], capture_output=True, text=True, check=True, timeout=180
    )

    assert eval(done.stdout.strip().splitlines()[-1]) == imported
