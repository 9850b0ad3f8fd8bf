"""A lock file between processes. The kernel releases it when its owner ends, for whatever reason."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from knative.errors import NotReadyError
from tables.timing import POLL_S


@contextlib.contextmanager
def locked(path: Path, limit_s: float, what: str) -> Iterator[None]:
    """Hold an exclusive lock on `path`, whose folder must exist. `what`: what its owner does, as "is starting ...".

    Raises NotReadyError when another process still holds it after `limit_s`.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        end = time.monotonic() + limit_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise NotReadyError(
                        f"Another process {what}, and has not finished within {limit_s:.0f} s.",
                        f"Wait until that process ends, or stop it. It has locked {path}.",
                    ) from None
            time.sleep(POLL_S)
        yield
    finally:
        # Closing releases the lock. The file stays: if it was removed here, a process that waits on the old file and
        # one that creates a new file would both get their lock.
        os.close(handle)
