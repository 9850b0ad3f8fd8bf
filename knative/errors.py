"""Errors that a person has to act on: what failed, on which object, why, and what to do.

Refuses to hold errors that are ordinary values on the data path (a bad event, an unreadable record, a failed attempt):
those live beside the code that returns them.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Something a person must mend. `exit_code` is what a command line ends with: 1 failed, 2 usage, 3 not ready."""

    exit_code = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".rstrip())
        self.what = what
        self.hint = hint


class UsageError(PenstockError):
    """The request itself was wrong: a setting, an argument, a file."""

    exit_code = 2


class NotReadyError(PenstockError):
    """Something that was waited for did not come within its limit."""

    exit_code = 3
