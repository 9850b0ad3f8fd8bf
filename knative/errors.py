"""Errors that a person has to act on: what failed, on which object, why, and what to do.

Errors that are ordinary values on the data path (a bad event, an unreadable record, a failed attempt) do not belong
here. They live beside the code that returns them.
"""

from __future__ import annotations

import errno
from enum import IntEnum

SHOWN_CHARS = 200  #: of a text from outside, in a message, a log line or a status: a hostile one must not fill them


class ExitCode(IntEnum):
    """What the exit code of a command or a worker says."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_READY = 3
    PARTLY = 4
    INTERNAL = 70  #: EX_SOFTWARE of sysexits.h: a bug, or an event loop that hangs
    IO_FAILED = 74  #: EX_IOERR
    LEFT = 75  #: EX_TEMPFAIL: a worker has handed over, and its supervisor starts another in its place


class PenstockError(Exception):
    """A problem that a person must fix. `exit_code` is the exit code of a command."""

    exit_code: int = ExitCode.FAILED

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".rstrip())
        self.what = what
        self.hint = hint


class UsageError(PenstockError):
    """The request itself is wrong: a setting, an argument, a file."""

    exit_code = ExitCode.USAGE


class NotReadyError(PenstockError):
    """What a command waited for did not happen within the time limit."""

    exit_code = ExitCode.NOT_READY


def os_reason(problem: OSError) -> str:
    """Returns why the system refused, in the words of a user."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return problem.strerror or str(problem)
