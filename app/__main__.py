"""`python -m app worker`: Faust's command line on our app, from any folder.

`faust -A app` searches the current folder first and may find another package named `app` there.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import app
from app.lean_imports import import_libraries


def main() -> None:
    """Run `faust -A app ARGUMENT...`."""
    is_worker = sys.argv[1:2] == ["worker"]
    gc.disable()  # what is imported stays, and looking for garbage in it takes a tenth of the start
    import_libraries()
    import_module("app.compose" if is_worker else "faust.cli.faust")  # which has all commands
    from faust.cli.base import cli

    gc.enable()
    sys.argv[1:1] = ["-A", "app"]
    if is_worker and app.take_seat():
        sys.argv.insert(1, "--quiet")  # Faust's banner, of each process, would be between the lines of the log
    _ = app.app  # built before Faust puts the current folder first in the import path
    cli()


if __name__ == "__main__":
    main()
