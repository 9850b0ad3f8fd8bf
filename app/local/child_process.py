"""A child process of a command: it has a session of its own, and its output goes to a log file.

Warnings and errors in the log also go to the terminal. The child dies with this process, whatever kills it. Does not
restart a child: when one ends, the stack stops.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import orjson

from app.timing import END_S
from knative.errors import os_reason
from tables.timing import POLL_S

_LOUD = frozenset({"warning", "error", "critical"})
_APART = frozenset({"timestamp", "level", "event", "logger", "worker", "exception"})
#: In the log file only, to keep lines short on a terminal.
_FULL_LOG_ONLY = frozenset({"event_source", "event_type", "destination", "ms", "partition", "offset"})


class Child:
    """One process. Start it from the main thread: the kernel ends it with the thread that started it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path | None = None,
        echo: Callable[[str], None] | None = None,
        quiet: Collection[str] = (),
        folder: Path | None = None,
    ) -> None:
        """Without `log_file` the child has the same output as this process, without `folder` the same directory.

        `echo` gets the warnings and errors, one by one, except events that begin with one of `quiet`.
        """
        self.name = name
        self.log_file = log_file
        self._complaint: str | None = None
        self._echoes = echo is not None
        self._last: deque[str] = deque(maxlen=3)
        if log_file is not None and log_file.exists():
            log_file.replace(log_file.with_suffix(".log.1"))  # keeps one earlier run
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=None if log_file is None else subprocess.PIPE,
            stderr=None if log_file is None else subprocess.STDOUT,
            # Ctrl-C at the terminal must not reach the sample subscriber: the worker delivers to it while it drains.
            start_new_session=True,
            cwd=folder,
            preexec_fn=die_with_parent(),
        )
        self._reader: threading.Thread | None = None
        if log_file is not None:
            self._reader = threading.Thread(
                target=self._keep, args=(log_file, echo, quiet), name=f"log-{name}", daemon=True
            )
            self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code once it has ended, negative for a signal."""
        return exit_code(self._process)

    @property
    def last_words(self) -> str:
        """Its last warning or error, otherwise its last lines, once it has ended; "" when `echo` had them already."""
        self._settle()
        if self._complaint and self._echoes:
            return ""
        return self._complaint or " | ".join(short_line(line) for line in self._last)

    def stop(self, limit_s: float) -> bool:
        """Send SIGTERM, wait, and send SIGKILL after `limit_s`. Returns whether it ended by itself."""
        send(self._process, signal.SIGTERM)
        if not ended(self._process, limit_s):
            self.kill()
            return False
        self._settle()
        return True

    def kill(self) -> None:
        """Send SIGKILL to the child and to the children in its session."""
        if self.code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        ended(self._process, END_S)
        self._settle()

    def _settle(self) -> None:
        if self._reader is not None:
            self._reader.join(2.0)

    def _keep(self, log_file: Path, echo: Callable[[str], None] | None, quiet: Collection[str]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, log_file.open("wb", buffering=0) as log:
            is_kept = True
            for line in lines:
                try:
                    log.write(line)
                    is_kept = True
                except OSError as problem:  # the child must not wait for a reader of its output
                    if is_kept and echo is not None:
                        echo(f"The log of the {self.name} cannot be written to {log_file}: {os_reason(problem)}.")
                    is_kept = False
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    self._last.append(text)
                if loud := loud_line(text, quiet):
                    self._complaint = loud
                    if echo is not None:
                        echo(loud)


def short_line(line: str) -> str:
    """Returns a log line for people: level, event and details of a JSON line, or any other line. Always printable."""
    fields = _fields(line)
    text = line
    if fields is not None:
        details = [
            f"{name}={value}"
            for name, value in fields.items()
            if name not in _APART | _FULL_LOG_ONLY and value not in ("", None)
        ]
        why = str(fields.get("exception", "")).strip().rpartition("\n")[2]  # the last line of a traceback
        text = " ".join([f"{fields.get('level', '')}:", str(fields.get("event", "")), *details, why]).rstrip()
    return text if text.isprintable() else ascii(text)[1:-1]


def loud_line(line: str, quiet: Collection[str] = ()) -> str | None:
    """Returns the short form of a JSON line that is a warning or an error; None for others, and for `quiet` events."""
    fields = _fields(line)
    if fields is None or fields.get("level") not in _LOUD:
        return None
    if str(fields.get("event", "")).startswith(tuple(quiet)):
        return None
    return short_line(line)


def _fields(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        fields: dict[str, object] = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return fields


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """Returns a `preexec_fn`: Linux sends the child this signal when its parent dies, even by SIGKILL. None elsewhere.

    The kernel watches the *thread* that started the child: start such children from a thread that lives as long.
    """
    if not sys.platform.startswith("linux"):
        return None
    # Loaded now, because between fork and exec only the call itself is safe: other threads may hold locks.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def apply() -> None:
        prctl(1, number, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return apply


# If a signal handler raises an exception inside `Popen.poll`, as Ctrl-C does, the lock of `Popen` may stay held, and
# `Popen.wait` then blocks for ever. These functions use no lock, so only one thread may use them for a child.


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Returns None while it runs; a negative number for a signal."""
    if process.returncode is None:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            # A Ctrl-C between `waitpid` and the assignment below loses the status: the child is reaped already.
            process.returncode = 255
        else:
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait until the process has ended; False when it still runs after `limit_s`."""
    end = time.monotonic() + limit_s
    while exit_code(process) is None:
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def send(process: subprocess.Popen[bytes], signal_number: int) -> None:
    """Send a signal, unless the process has ended."""
    # A child that is not reaped keeps its process id, so the signal cannot reach another process.
    if exit_code(process) is None:
        os.kill(process.pid, signal_number)
