"""Starts Penstock's programs with Penstock's own packages, whatever the current folder and PYTHONPATH hold.

    penstock ARGUMENT...                              the console script
    python -P penstock/_entry.py MODULE ARGUMENT...   what `python -m MODULE ARGUMENT...` does

The packages have short names (`app`, `web`, `tables`, ...) that a user's project may have too, and PYTHONPATH comes
before the folder of installed packages. So these names are looked up in the folder of this installation before anything
else. The search path itself does not change: all other modules are found where they would be.

This file is also run by its path, so it imports the standard library only.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OWN = frozenset(("agents", "analytics", "app", "controller", "knative", "penstock", "tables", "web"))
FOLDER = str(Path(__file__).resolve().parents[1])


class OwnPackages:
    """Finds Penstock's packages in its own folder, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As `importlib` calls it."""
        return PathFinder.find_spec(name, [FOLDER], target) if name in OWN else None


def main() -> None:
    """Run `penstock ARGUMENT...`. Its imports take tenths of a second; a Ctrl-C during them is not an error."""
    sys.meta_path.insert(0, OwnPackages)
    try:
        run = importlib.import_module("app.cli").main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    sys.meta_path.insert(0, OwnPackages)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
