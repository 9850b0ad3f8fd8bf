"""Errors that no command has explained: which of them a user can mend, and what their sentences name."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from app.cli.last_resort import explained
from knative.errors import NotReadyError


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _os_error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path) if path else OSError(number, os.strerror(number))


def _caused(cause: BaseException) -> Exception:
    try:
        raise RuntimeError("a library gave up") from cause
    except RuntimeError as problem:
        return problem


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (NotReadyError("Kafka does not answer.", "Start it."), 3, "Kafka does not answer. Start it."),
        (_os_error(errno.ENOSPC, "/d/f"), 74, "`penstock dlq list` failed: the disk is full: /d/f. Free some space"),
        (_os_error(errno.EDQUOT, "/d/f"), 74, "failed: the disk is full: /d/f."),
        (_os_error(errno.EACCES, "/d/f"), 74, "failed: Permission denied: /d/f. Check the permissions of the file."),
        (_os_error(errno.EROFS, "/d/f"), 74, "failed: Read-only file system: /d/f."),
        (_caused(_os_error(errno.ENOSPC, "/d/f")), 74, "failed: the disk is full: /d/f."),
        (_os_error(errno.ENOENT, "/wheel/page.html"), 70, "internal error: FileNotFoundError: [Errno 2]"),
        (_caused(KeyError("x")), 70, "internal error: RuntimeError: a library gave up. This is a bug: please report"),
        (ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow"), 2, "'.[report]'"),
        (ModuleNotFoundError("No module named 'odd'", name="odd"), 70, "No module named 'odd'."),
    ],
    ids=str,
)
def test_sentence_and_the_code(problem: Exception, code: int, says: str) -> None:
    error = explained(problem, ["dlq", "list", "--reason", "secret"])
    assert (error.exit_code, says in str(error)) == (code, True), str(error)
    assert "secret" not in str(error)


def test_what_follows_the_command_is_not_shown() -> None:
    assert "`penstock send`" in str(explained(KeyError("x"), ["send", "--data", "secret"]))
    assert "`penstock`" in str(explained(KeyError("x"), ["--help"]))
