"""Tells whether files have changed since the last look, without reading them.

A mounted Secret or ConfigMap changes as a whole, by a link, but its files are read one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from knative.errors import PenstockError
from knative.file_signature import FileSignature, file_signature

Signature = tuple[FileSignature | None, ...]
T = TypeVar("T")


def signature(paths: Iterable[Path]) -> Signature:
    """Returns what differs when one of the files is another one, or has changed. Asks the file system for each."""
    return tuple(_of(path) for path in paths)


def read_together(paths: Collection[Path], read: Callable[[], T]) -> T:
    """Returns or raises what `read` does for files of one moment: it reads again, a few times, when one of them has
    changed meanwhile, such as the password after the user's name."""
    for _ in range(4):
        before = signature(paths)
        try:
            content = read()
        except (PenstockError, OSError):
            if signature(paths) == before:
                raise
        else:
            if signature(paths) == before:
                return content
    return read()


def _of(path: Path) -> FileSignature | None:
    try:
        return file_signature(path.stat())
    except OSError:
        return None
