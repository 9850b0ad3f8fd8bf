"""Runs Maven to copy the jars of a pom into a folder, with progress, and explains its errors."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from app.local.kafka.jar_sets import KAFKA, JarSet
from app.local.kafka.processes import die_with_parent
from app.local.kafka.toolchain import find_java, find_maven
from knative.errors import NotReadyError, PenstockError

_JAR = re.compile(r"(?:Downloaded from \S+: \S*/|Copying )([^/\s]+\.jar)\b")
_NETWORK = (
    "Could not transfer",
    "Unknown host",
    "UnknownHostException",
    "Connection refused",
    "Connection timed out",
    "Connect timed out",
    "Connection reset",
    "Network is unreachable",
    "No route to host",
    "was not found in",  # Maven's message for a failed look-up that it has cached
)
_TAIL_LINES = 400


def copy_jars(jars: JarSet, folder: Path, seen: Callable[[str], None], limit_s: float, log: Path) -> None:
    """Run `dependency:copy-dependencies`. `seen` gets each jar's file name when it is downloaded and when it is copied.

    Maven's output goes to `log`. Raises PenstockError (no Java, no Maven, no network, disk full), NotReadyError.
    """
    find_java(jars)
    command = [
        find_maven(jars),
        "--batch-mode",  # plain progress lines, no questions
        "-Dstyle.color=never",
        "-f",
        str(jars.pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
    ]
    lines: list[str] = []
    with (
        log.open("w", encoding="utf-8") as copy,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=folder,
            preexec_fn=die_with_parent(),
        ) as process,
    ):
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                copy.write(line)
                lines = [*lines[-_TAIL_LINES:], line]
                if match := jar_name(line):
                    seen(match)
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
    if code:
        raise explain(lines, code, limit_s, log, jars)


def jar_name(line: str) -> str | None:
    """The file name of the jar in a progress line, or None."""
    match = _JAR.search(line)
    return match[1] if match else None


def explain(lines: list[str], code: int, limit_s: float, log: Path, jars: JarSet = KAFKA) -> PenstockError:
    """The error for Maven's last lines and exit code, with a hint."""
    text = "".join(lines)
    again = f"Maven's output is in {log}."
    if code == -9:
        return NotReadyError(
            f"Maven Central did not deliver the jars of {jars.owner} within {limit_s:.0f} s.",
            f"Try again: jars that have arrived are kept. {again}",
        )
    if "No space left on device" in text:
        room = f"The disk is full: the jars of {jars.owner} take {jars.megabytes + 85} MB."
        return PenstockError(room, f"Free some space. {again}")
    if any(sign in text for sign in _NETWORK):
        return PenstockError(
            f"Maven Central cannot be reached, and the jars of {jars.owner} are not here yet.",
            f"They are needed once: connect to the network (behind a proxy or a mirror: ~/.m2/settings.xml) and try "
            f"again. {again}",
        )
    errors = [line.strip() for line in lines if line.startswith("[ERROR]") and line[7:].strip()]
    why = errors[0][7:].strip() if errors else f"exit code {code}"
    return PenstockError(f"Maven could not download the jars of {jars.owner}: {why}", again)
