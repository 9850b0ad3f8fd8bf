"""A child process of `penstock up` and of the demo: started in a group of its own, its output kept in a log file.

Lines of the log that are warnings or worse also go to the terminal. The child dies with this process, whatever kills
it. Refuses to restart anything: that a child ended is told, and everything ends.
"""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from app.embedded.processes import die_with_parent

_LAST_LINES = 3
_LOUD = frozenset({"warning", "error", "critical"})


class Child:
    """One process. Start it from the main thread: the kernel ends it with the thread that started it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path | None = None,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        """Without `log_file` its output is this process's own. `echo` is told the loud lines, one by one."""
        self.name = name
        self.log_file = log_file
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        if log_file is not None and log_file.exists():
            log_file.replace(log_file.with_suffix(".log.1"))  # the run before this one; not more
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=None if log_file is None else subprocess.PIPE,
            stderr=None if log_file is None else subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        self._reader: threading.Thread | None = None
        if log_file is not None:
            self._reader = threading.Thread(target=self._keep, args=(log_file, echo), name=f"log-{name}", daemon=True)
            self._reader.start()

    @property
    def pid(self) -> int:
        """The process number."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code once it has ended, negative for a signal."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """Its last lines, once it has ended."""
        if self._reader is not None:
            self._reader.join(2.0)
        return " | ".join(self._last)

    def stop(self, limit_s: float) -> bool:
        """SIGTERM, wait, SIGKILL after `limit_s`. True when it ended by itself."""
        self._process.terminate()
        try:
            self._process.wait(max(0.0, limit_s))
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._settle()
        return True

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._settle()

    def _settle(self) -> None:
        if self._reader is not None:
            self._reader.join(2.0)

    def _keep(self, log_file: Path, echo: Callable[[str], None] | None) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, log_file.open("wb") as log:
            for line in lines:
                log.write(line)
                log.flush()
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    self._last.append(text)
                if echo is not None and (told := loud_line(text)):
                    echo(told)


def loud_line(line: str) -> str | None:
    """A short form of a JSON log line that is a warning or worse; None for all others."""
    if not line.startswith("{"):
        return None
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    level = str(fields.pop("level", "")).lower()
    if level not in _LOUD:
        return None
    event = fields.pop("event", "")
    details = " ".join(f"{name}={value}" for name, value in fields.items() if name not in ("timestamp", "logger"))
    told = f"{level}: {event} {details}".rstrip()
    return told if told.isprintable() else ascii(told)[1:-1]
