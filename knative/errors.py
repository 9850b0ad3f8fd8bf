"""Errors that a person has to act on: what failed, on which object, why, and what to do.

Errors that are ordinary values on the data path (a bad event, an unreadable record, a failed attempt) do not belong
here. They live beside the code that returns them.
"""

from __future__ import annotations

import errno

SHOWN_CHARS = 200  #: of a text from outside, in a message, a log line or a status: a hostile one must not fill them


class PenstockError(Exception):
    """A problem that a person must fix. `exit_code` is the exit code of a command: 1 failed, 2 usage, 3 not ready."""

    exit_code = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".rstrip())
        self.what = what
        self.hint = hint


class UsageError(PenstockError):
    """The request itself is wrong: a setting, an argument, a file."""

    exit_code = 2


class NotReadyError(PenstockError):
    """What a command waited for did not happen within the time limit."""

    exit_code = 3


def os_reason(problem: OSError) -> str:
    """Why the system refused, in the words of a user."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return problem.strerror or str(problem)
