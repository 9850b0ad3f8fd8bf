"""Imports Penstock's packages into a program that has packages of the same names.

`agents` and `tables` are names that a user's project may have too. Python knows one module of a name, so ours are
imported aside: within `own_packages` the names are ours, and after it they are the user's again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from penstock._entry import FOLDER, OWN, OwnPackages

_SHARED = frozenset(("knative", "penstock"))  # the API has these itself


@contextmanager
def own_packages() -> Iterator[None]:
    """Within the block, `from agents... import` finds Penstock's packages. Where it does so anyway, nothing changes."""
    theirs = [top for top in OWN - _SHARED if _is_theirs(top)]
    aside = _take(theirs)
    sys.meta_path.insert(0, OwnPackages)
    try:
        yield
    finally:
        sys.meta_path.remove(OwnPackages)
        _take(theirs)
        sys.modules.update(aside)


def _is_theirs(top: str) -> bool:
    spec = PathFinder.find_spec(top)
    return spec is not None and spec.origin is not None and not Path(spec.origin).resolve().is_relative_to(FOLDER)


def _take(tops: list[str]) -> dict[str, ModuleType]:
    """Remove these packages from what is imported, and return what was removed."""
    names = [name for name in sys.modules if name.partition(".")[0] in tops]
    return {name: sys.modules.pop(name) for name in names}
