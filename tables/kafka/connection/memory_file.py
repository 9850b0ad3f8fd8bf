"""Secrets as files, for libraries that take only a path: no other program can change what was read once."""

from __future__ import annotations

import os
import tempfile
import weakref


class MemoryFile(str):
    """The path of a file that exists as long as this text: on Linux in memory only, elsewhere a temporary file. Only
    this user can open it."""

    def __new__(cls, content: bytes) -> MemoryFile:
        """Returns a file with this content."""
        in_memory = hasattr(os, "memfd_create")
        file = open(os.memfd_create("penstock"), "wb") if in_memory else tempfile.NamedTemporaryFile()  # noqa: SIM115
        file.write(content)
        file.flush()
        path = super().__new__(cls, f"/proc/self/fd/{file.fileno()}" if in_memory else file.name)
        weakref.finalize(path, file.close)
        return path
