"""A worker imports what the console needs, and templates, when somebody looks."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PRINT = 'import sys; print({"aiohttp", "jinja2", "web.console.server"} & set(sys.modules))'
_BUILD = "from app.compose import build; from app.settings.load import Settings; app = build(Settings(console={!r}))"


@pytest.mark.parametrize(
    ("program", "imported"),
    [
        (_BUILD.format("off"), set()),
        (_BUILD.format("write"), set()),
        ("import app.operations.console, app.observability.admin_site", {"aiohttp", "web.console.server"}),
    ],
)
def test_console_is_imported_only_where_it_is_served(program: str, imported: set[str]) -> None:
    whole = f"from app.lean_imports import import_libraries; import_libraries(); {program}; {_PRINT}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True, timeout=180)

    assert eval(done.stdout.strip().splitlines()[-1]) == imported
