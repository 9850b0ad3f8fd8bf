"""Finds the Java that the embedded Kafka needs on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess

from app.local.kafka.jar_sets import KAFKA, JarSet
from knative.errors import PenstockError

JAVA_MIN = 17
_ASK_LIMIT_S = 30.0


def find_java(jars: JarSet = KAFKA) -> str:
    """Path of a `java` that is new enough. Raises PenstockError with a hint."""
    java = shutil.which("java")
    install = f"Install a JDK {JAVA_MIN} or newer (Debian: apt install openjdk-17-jdk-headless). {jars.instead}"
    if java is None:
        raise PenstockError(f"{_begin(jars)} needs Java, and there is no `java` on the PATH.", install)
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise PenstockError(f"`{java} -version` does not work ({problem}).", install) from problem
    major = java_major(shown.stderr + shown.stdout)
    if major is None:
        raise PenstockError(f"`{java} -version` does not print a version.", install)
    if major < JAVA_MIN:
        raise PenstockError(f"{_begin(jars)} needs Java {JAVA_MIN} or newer, and `{java}` is {major}.", install)
    return java


def java_major(text: str) -> int | None:
    """The major version in the output of `java -version`: 17 for `"17.0.15"`, 8 for `"1.8.0_402"`."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first


def _begin(jars: JarSet) -> str:
    """The owner of the jars, for the beginning of a sentence."""
    return jars.owner[0].upper() + jars.owner[1:]
