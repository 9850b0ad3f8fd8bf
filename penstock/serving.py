"""Serves the handlers of one file by HTTP: the process that `penstock dev` starts, and starts again after a change.

It is a process of its own, because in it all names are the user's: a project may have an `app` and a `web`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path

from aiohttp import web

from knative.errors import PenstockError, UsageError
from penstock.handlers import registered
from penstock.subscriber import Subscriber

_REMEMBERED = 10_000


def main() -> None:
    """FILE PORT LIST: serve the handlers of FILE at PORT, and write what they are to LIST when they listen."""
    file, port, listed = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    try:
        load(file)
    except PenstockError as problem:
        raise SystemExit(str(problem)) from None
    except Exception as problem:
        # From the user's own code on: what imports it says nothing about the mistake.
        frames = problem.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != str(file):
            frames = frames.tb_next
        traceback.print_exception(problem.with_traceback(frames))
        raise SystemExit(1) from None
    application = web.Application()
    for handler in registered.values():
        application.router.add_post(f"/{handler.name}", Subscriber(handler.function, remember=_REMEMBERED).aiohttp)
    rows = [{"name": handler.name, "filter": handler.filter, "retry": handler.retry} for handler in registered.values()]

    def listening(_: str) -> None:
        listed.with_suffix(".new").write_text(json.dumps(rows))
        listed.with_suffix(".new").replace(listed)

    web.run_app(application, host="127.0.0.1", port=port, print=listening, shutdown_timeout=5.0)


def load(file: Path) -> None:
    """Import the file as Python would run it: modules beside it are found. Raises UsageError if it has no handler."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file.", "Name a file that ends with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    if not registered:
        raise UsageError(f"{file} has no handlers.", "Write @penstock.on(\"type = 'order.created'\") above a function.")
