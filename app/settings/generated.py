"""Writes generated files, or checks that they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def write_or_check(files: Mapping[Path, str], arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` report those that are out of date. Returns the exit code."""
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if list(arguments) == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(REPOSITORY)} is out of date; run `make docs` and commit it.", file=sys.stderr)
        return int(bool(stale))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    return 0
