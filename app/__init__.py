"""The application: `faust -A app worker` starts a worker, and `penstock` is the command line for everything.

`app.app`, the Faust app, is built at first access; the import alone builds and reads nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing, whose import takes as long as that of all the rest here
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from app.worker.seat import Seat
    from knative.errors import PenstockError

_seat: Seat | None = None


def take_seat() -> bool:
    """Start the processes that the settings ask for. Returns in each of them, before the first access to `app`: whether
    a supervisor has forked it."""
    global _seat
    from app.processes.supervisor import supervise
    from app.settings import load_settings
    from knative.errors import PenstockError

    try:
        _seat = supervise(load_settings())
    except PenstockError as problem:
        _fail(problem)
    return _seat is not None


def _fail(problem: PenstockError) -> NoReturn:
    print(problem, file=sys.stderr)
    raise SystemExit(problem.exit_code) from problem


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from app.compose import build
    from knative.errors import PenstockError

    try:
        built = build(seat=_seat)
    except PenstockError as problem:
        # Faust would show a traceback that ends in an import error instead of this message.
        _fail(problem)
    if "faust.cli.faust" in sys.modules:
        from app.operations.faust_commands import install

        install()
    globals()["app"] = built  # later accesses do not come here again
    return built
