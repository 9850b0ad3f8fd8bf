"""Finds files and modules that come with Penstock, in the repository or in an installed wheel.

examples/quickstart       the repository
app/examples/quickstart   a wheel: setup.py puts `examples` there
"""

from __future__ import annotations

import sys
from pathlib import Path

from knative.errors import PenstockError

QUICKSTART = "default/quickstart"  #: the channel of the example `quickstart`
#: Of the sample subscriber, in the resources of the example `quickstart`.
SUBSCRIBER_PORT = 8090
_APP = Path(__file__).parents[1]
_EXAMPLES = (_APP / "examples", _APP.parent / "examples")


def example(name: str) -> Path:
    """Returns the folder of an example, such as `quickstart`. Raises PenstockError when it is not installed."""
    for folder in _EXAMPLES:
        if (folder / name).is_dir():
            return folder / name
    raise PenstockError(
        f"This installation does not have the example {name} ({_APP.parent}).", "Install Penstock again."
    )


def document_folder() -> Path:
    """Returns the folder of the documentation. Raises PenstockError when this installation does not have it."""
    for folder in (_APP / "docs", _APP.parent / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise PenstockError(f"This installation has no documentation ({_APP.parent}).", "Install Penstock again.")


def is_repository() -> bool:
    """Returns whether this runs from the repository, where the examples are beside the packages and may be edited."""
    return _EXAMPLES[1].is_dir()


def lock_of(extra: str) -> Path | None:
    """Returns the lock file that has the packages of an extra. None outside the repository."""
    lock = _APP.parent / {"report": "requirements-report.lock"}.get(extra, "requirements-all.lock")
    return lock if lock.is_file() else None


def package_folder(package: str) -> Path:
    """Returns the folder of one of our packages, such as `analytics.spark`, without importing it."""
    return _APP.parent.joinpath(*package.split("."))


def python_module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs one of our modules in a process of its own.

    By a file, which nothing can hide: `-m` would find a user's package `app` in the current folder or PYTHONPATH.
    """
    return [sys.executable, "-P", str(_APP.parent / "penstock" / "_entry.py"), name, *arguments]
