"""`python -m tests.support.changed` prints the unit tests that mirror changed files: `make t` runs them first.

Changed means since the last commit; if nothing has, in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from tests.support.processes import REPOSITORY

_UNIT = PurePosixPath("tests/unit")
_LIMIT_S = 30.0
FILES_MAX = 30  #: of tests; when more are concerned, the whole ring is run at once


def mirrored_tests(changed: Iterable[str], glob: Callable[[str], Iterable[str]]) -> list[str]:
    """The files of tests that mirror the changed files; none if there are too many. `glob`: the files of a pattern,
    below the repository. Pure."""
    tests: dict[str, None] = {}
    for name in changed:
        path = PurePosixPath(name)
        if path.suffix != ".py":
            continue
        if path.is_relative_to(_UNIT):
            own, folder = str(path), path.parent
        else:
            own, folder = str(_UNIT / path.parent / f"test_{path.stem}*.py"), _UNIT / path.parent
        is_helper = path.is_relative_to(_UNIT) and not path.name.startswith("test_")
        mirrored = [] if is_helper else list(glob(own))
        tests |= dict.fromkeys(sorted(mirrored or glob(str(folder / "test_*.py"))))
    return list(tests) if len(tests) <= FILES_MAX else []


def changed_files() -> list[str]:
    """Those that differ from the last commit; if none does, those of the last commit."""
    names = [*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")]
    return names or _git("show", "--name-only", "--format=", "HEAD")


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    return done.stdout.splitlines()  # nothing where there is no git: then the whole ring is run at once


def _glob(pattern: str) -> list[str]:
    return [path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob(pattern)]


if __name__ == "__main__":
    print(*mirrored_tests(changed_files(), _glob))
