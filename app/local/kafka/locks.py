"""A lock file between processes. The kernel lets go of it when its owner ends, however it ends.

Refuses to wait without a limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from knative.errors import NotReadyError

_POLL_S = 0.1


@contextlib.contextmanager
def locked(path: Path, limit_s: float, what: str) -> Iterator[None]:
    """Holds an exclusive lock on `path`, which must be in an existing folder.

    Raises NotReadyError, with `what` its owner does ("is ..."), when that one still holds it after `limit_s`.
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
                        f"Another process {what}, for more than {limit_s:.0f} s by now.",
                        f"Wait for it, or end it: it holds {path}.",
                    ) from None
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(handle)
