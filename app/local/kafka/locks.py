"""A lock file between processes. The kernel releases it when its owner ends, for whatever reason."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from knative.errors import NotReadyError, PenstockError, UsageError, os_reason
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


@contextlib.contextmanager
def owned(folder: Path, option: str, what: str, use: str, second: str) -> Iterator[None]:
    """Own a folder, which is created if need be: two commands that write to it would damage what the other has written.

    For its errors: `option` chooses the folder, `what` is written to it, `use` is what its owner does ("runs in"), and
    `second` are the options of a second one. Raises UsageError when another process owns the folder, and PenstockError
    when it cannot be written.
    """
    with contextlib.ExitStack() as lock:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.enter_context(locked(folder / "lock", 0, use))
        except OSError as problem:
            raise unwritable(folder, option, what, problem) from problem
        except NotReadyError as problem:
            raise UsageError(
                f"Another command {use} {folder.absolute()}.",
                f"Stop it (Ctrl-C in its terminal). For a second one choose other directories and ports: {second}.",
            ) from problem
        yield


def unwritable(folder: Path, option: str, what: str, problem: OSError) -> PenstockError:
    """Returns the error that says how to choose another folder, by `option`, for `what` is written to it."""
    return PenstockError(
        f"{what} cannot be written to {folder}: {os_reason(problem)}.",
        f"Choose another directory with {option} DIR, or check the permissions and the free space of this directory.",
    )
