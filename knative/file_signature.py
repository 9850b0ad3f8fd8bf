"""What tells one state of a file from another without reading it. Pure: the caller asks for the file's status."""

from __future__ import annotations

import os

FileSignature = tuple[int, int, int]


def file_signature(status: os.stat_result) -> FileSignature:
    """Returns what differs when the path leads to another file, or the file has changed. A second change of the same
    size within the resolution of its time stamp does not show."""
    return status.st_ino, status.st_mtime_ns, status.st_size
