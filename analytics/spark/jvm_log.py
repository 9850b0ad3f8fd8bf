"""The error output of Spark's JVM: filters what reaches the terminal, and explains why the JVM failed.

A thread reads the pipe, drops the lines that appear at every start, and keeps the last lines. `explain_start` and
`explain_run` turn these lines and the exception into one sentence.
"""

from __future__ import annotations

import collections
import os
import re
import sys
import threading
from collections.abc import Sequence

from knative.errors import NotReadyError, PenstockError

_NOISE = re.compile(
    rb"WARNING: (?:Using incubator modules|package sun\.|A terminally deprecated|A restricted method|sun\.misc"
    rb"|System::setSecurityManager|Please consider reporting|java\.lang\.foreign|Use --enable|Restricted methods)"
    rb"|Using Spark's default log4j|Setting default log level|To adjust logging level|Picked up _?JAVA_TOOL_OPTIONS"
    rb"|SLF4J|^JAVA_HOME is not set|spark-class: line \d+: "
    # Threads of a JVM that is ending, and stack traces: the exception that Python gets has the same text.
    rb"|^java\.util\.concurrent\.RejectedExecutionException|^\tat [\w.$/]+\(|^\t\.\.\. \d+ more"
    # The heap is full: `explain_run` reports it.
    rb"|^Terminating due to java\.lang\.OutOfMemoryError|SparkUncaughtExceptionHandler|^java\.lang\.OutOfMemoryError"
    rb"|^Exception in thread \"stream execution thread|RpcEnvStoppedException"
)
_NO_MEMORY = re.compile(r"OutOfMemory|Java heap space|GC overhead limit")
_CAUSE = re.compile(r"^(?:Caused by: |: )?(?:[\w.$]+\.)?(\w*(?:Exception|Error)\b:? .*)$", re.M)
#: Pattern in the JVM's last lines -> what it means, and a hint.
_MEANINGS = (
    (
        re.compile(r"/bin/java: (?:No such file|Permission denied|Is a directory|Not a directory)"),
        "Spark needs Java 17 or newer, and JAVA_HOME names a folder without bin/java.",
        "Set JAVA_HOME to a JDK, or unset it to use the java on the PATH.",
    ),
    (
        re.compile(r"JAVA_HOME is not set|java: (?:command )?not found|java: No such file|exec: java"),
        "Spark needs Java 17 or newer, and there is no java on the PATH.",
        "Install a JDK (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME.",
    ),
    (
        re.compile(r"UnsupportedClassVersionError|class file version|Unrecognized option: --add-modules"),
        "Spark needs Java 17 or newer, and the java on the PATH is older.",
        "Install a JDK 17 or newer, and set JAVA_HOME to it.",
    ),
    (
        re.compile(r"All masters are unresponsive|Failed to connect to master|Application has been killed"),
        "No Spark master answers at {place}.",
        "Check that it runs, and that the address is the one in its log (spark://HOST:PORT).",
    ),
    (
        re.compile(r"Could not parse Master URL|Invalid master URL|invalid master|Master must (?:either )?be", re.I),
        "{place} is not a valid address of a Spark master.",
        "Write local[*], local[2], spark://HOST:7077, k8s://https://HOST:443 or yarn.",
    ),
    (
        re.compile(r"insufficient memory|Could not reserve enough space|Invalid maximum heap|OutOfMemoryError"),
        "There is not enough memory for Spark's JVM.",
        "Free some memory, or use less: --driver-memory 512m.",
    ),
    (
        re.compile(r"Cannot assign requested address|Can't assign requested|BindException"),
        "Spark cannot listen on this address.",
        "Use an address of this machine: --driver-host ADDRESS.",
    ),
    (
        re.compile(r"UNAVAILABLE|failed to connect to all addresses|DNS resolution failed", re.I),
        "No Spark Connect server answers at {place}.",
        "Start a server with start-connect-server.sh of Spark, or remove --remote.",
    ),
    (
        re.compile(r"No space left on device"),
        "The disk is full where Spark keeps its temporary files.",
        "Free some space, or set SPARK_LOCAL_DIRS to a folder on another disk.",
    ),
)


class Listener:
    """Reads a JVM's error output. Pass `inlet` to the child, then call `close_inlet`."""

    def __init__(self) -> None:
        self._outlet, self.inlet = os.pipe()
        self._lines: collections.deque[str] = collections.deque(maxlen=200)
        self._open = True
        self._muted = False
        self._thread = threading.Thread(target=self._listen, name="spark-stderr", daemon=True)
        self._thread.start()

    def close_inlet(self) -> None:
        """Close this process's copy of the writing end; the child has its own by now."""
        if self._open:
            self._open = False
            os.close(self.inlet)

    def mute(self) -> None:
        """Show nothing more: this process is ending the JVM in the middle of its work, so the JVM will complain."""
        self._muted = True

    def last_lines(self, limit_s: float = 2.0) -> list[str]:
        """Returns the last lines of the JVM, once it has ended or `limit_s` has passed."""
        self._thread.join(limit_s)
        return list(self._lines)

    def _listen(self) -> None:
        sieve = Sieve()
        with os.fdopen(self._outlet, "rb", buffering=0) as stream:
            while chunk := stream.read(65_536):
                output = sieve.pass_on(chunk)
                self._lines.extend(sieve.take_lines())
                self._show(output)
        self._show(sieve.end())
        self._lines.extend(sieve.take_lines())

    def _show(self, output: bytes) -> None:
        if output and not self._muted:
            sys.stderr.write(output.decode(errors="replace"))
            sys.stderr.flush()


class Sieve:
    """Filters noise lines out of a byte stream. A progress bar (ends in `\\r`) passes immediately."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[str] = []

    def pass_on(self, chunk: bytes) -> bytes:
        """Returns the part of the output that can be shown now."""
        parts = re.split(rb"(?<=[\r\n])", self._rest + chunk)
        self._rest = parts.pop()
        kept = []
        for part in parts:
            self._lines.append(part.decode(errors="replace").strip())
            if not _NOISE.search(part):
                kept.append(part)
        return b"".join(kept)

    def end(self) -> bytes:
        """Returns the last line, if it has no line end."""
        return self.pass_on(b"\n") if self._rest else b""

    def take_lines(self) -> list[str]:
        """Returns the lines since the last call, noise included."""
        lines, self._lines = self._lines, []
        return lines


def is_broken(problem: BaseException) -> bool:
    """Returns whether the connection to the JVM broke, because the JVM has ended or is about to."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(problem, Py4JNetworkError | ConnectionError)


def explain_run(problem: BaseException, lines: Sequence[str] | None, memory: str) -> PenstockError | None:
    """Returns why a session ended early; None if the cause is not Spark.

    `lines` are the JVM's last lines, None while it is alive. `memory` is the size of its heap.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(problem, Py4JError | PySparkException) and not (is_broken(problem) and lines is not None):
        return None
    text = "\n".join((*(lines or ()), str(problem)))
    if _NO_MEMORY.search(text):
        return PenstockError(
            f"Spark ran out of memory (its process had {memory}).",
            "Allow more memory: --driver-memory 4g, and on a cluster --conf spark.executor.memory=4g.",
        )
    if lines is not None:
        return PenstockError(
            "Spark's process exited during the job.",
            "Run the job again. `dmesg` shows whether the system killed the process.",
        )
    return PenstockError(f"Spark failed: {last_cause(str(problem))}", "Start again.")


def last_cause(text: str) -> str:
    """Returns the message of the innermost exception in the text, or its first line."""
    causes = _CAUSE.findall(text)
    return str(causes[-1] if causes else next(iter(text.strip().splitlines()), "Spark gave no reason")).strip()[:240]


def explain_start(problem: BaseException, lines: Sequence[str], place: str) -> PenstockError:
    """Returns why a session did not start, from the exception and the JVM's last lines."""
    text = "\n".join((*lines, str(problem)))
    for sign, what, hint in _MEANINGS:
        if sign.search(text):
            kind = NotReadyError if "answers at" in what else PenstockError
            return kind(what.format(place=place), hint)
    said = next((line for line in reversed(lines) if re.search(r"Exception|Error", line)), "")
    why = said or (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return PenstockError(
        f"Spark did not start at {place}: {why[:300]}",
        "For details, raise the level in analytics/spark/log4j2.properties to info.",
    )
