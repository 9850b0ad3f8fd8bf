"""Tells whether files have changed since the last look, without reading them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from knative.file_signature import FileSignature, file_signature

Signature = tuple[FileSignature | None, ...]


def signature(paths: Iterable[Path]) -> Signature:
    """Differs when one of the files is another one, or has changed. Asks the file system for each."""
    return tuple(_of(path) for path in paths)


def _of(path: Path) -> FileSignature | None:
    try:
        return file_signature(path.stat())
    except OSError:
        return None
