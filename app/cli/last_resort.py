"""What a command says about an error that nothing else has explained: one sentence and an exit code of its own, never a
traceback on the terminal.

    PenstockError            its sentence, and its exit code
    a full disk, no rights   IO_FAILED   which file, and why
    anything else            INTERNAL    where its traceback is, for a report

No code is that of a result: `penstock explain` ends with 1 if an event does not match.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version

from app.settings.extras import error_of
from knative.errors import ExitCode, PenstockError, os_reason

_FULL = (errno.ENOSPC, errno.EDQUOT)
#: The errors that users can fix.
_OF_FILES = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOTDIR)


class IoError(PenstockError):
    """A file or the standard output cannot be read or written."""

    exit_code = ExitCode.IO_FAILED


class InternalError(PenstockError):
    """An error that is a bug in Penstock."""

    exit_code = ExitCode.INTERNAL


def explained(problem: Exception, arguments: Sequence[str]) -> PenstockError:
    """Returns the error to print. `arguments`: of the command, without its name. Writes the traceback of an internal
    error into a file."""
    if isinstance(problem, PenstockError):
        return problem
    if isinstance(problem, ModuleNotFoundError) and (missing := error_of(problem, "This command")):
        return missing  # commands check for extras before they begin; this is for an import that no check covers
    command = " ".join(["penstock", *_words(arguments)])
    for cause in _causes(problem):
        if isinstance(cause, OSError) and cause.errno in _OF_FILES:
            return _of_file(command, cause)
    what = " ".join("".join(traceback.format_exception_only(problem)).split())
    return InternalError(f"`{command}` failed because of an internal error: {what[:300]}.", _report(command, problem))


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)


def _of_file(command: str, problem: OSError) -> PenstockError:
    named = problem.filename
    place = os.fsdecode(named) if isinstance(named, str | bytes) else _full_output() if problem.errno in _FULL else None
    hint = "Free some space, and try again." if problem.errno in _FULL else "Check the permissions of the file."
    return IoError(f"`{command}` failed: {os_reason(problem)}" + (f": {place}." if place else "."), hint)


def _full_output() -> str | None:
    """Returns the file that is the standard output, if its disk is full, else None. The system names no file when it
    cannot write to it."""
    with suppress(OSError, ValueError, AttributeError):
        number = sys.stdout.fileno()
        if stat.S_ISREG(os.fstat(number).st_mode) and not os.fstatvfs(number).f_bavail:
            return os.readlink(f"/proc/self/fd/{number}")
    return None


def _report(command: str, problem: BaseException) -> str:
    """Keep the traceback, and say where."""
    system = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    head = f"{command}, penstock {version('penstock')}, Python {python}, {system.sysname} {system.release}"
    text = f"{head}\n\n{''.join(traceback.format_exception(problem))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="backslashreplace", prefix="penstock-error-", suffix=".txt", delete=False
        ) as file:  # which only this user can read: a traceback may quote an input
            file.write(text)
    except OSError:
        with suppress(OSError):
            print(text, file=sys.stderr)
        return "This is a bug: please report it with the traceback above."
    return f"This is a bug: please report it with {file.name}, which has the traceback."


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """Yields the names of the command; what follows may be private."""
    for argument in arguments[:2]:
        if not argument.isascii() or not argument.isalpha() or not argument.islower():
            return
        yield argument
