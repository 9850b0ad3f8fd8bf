"""The application: `faust -A app worker` starts a worker, `penstock` is the friendly door.

`app.app`, the Faust app, is built when it is first asked for. Refuses to build or read anything at import.
"""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from app.compose import build
    from knative.errors import PenstockError

    try:
        built = build()
    except PenstockError as problem:
        # Faust would show a traceback that ends in an import error; a person needs the sentence.
        print(problem, file=sys.stderr)
        raise SystemExit(problem.exit_code) from problem
    if "faust.cli.faust" in sys.modules:
        from app.faust_commands import install

        install()
    globals()["app"] = built  # built once, however often it is asked for
    return built
