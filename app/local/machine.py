"""What a machine must have before anything is downloaded: programs and free ports, as one list with what to do.

Uses only the standard library, and nothing that an older Python does not know, because it runs before anything is
installed.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec

from knative.errors import PenstockError

LOOPBACK = "127.0.0.1"
JAVA_MIN = 17
PYTHON_MIN = (3, 11)
#: Port -> what `penstock up` uses it for.
PORTS = {8080: "events", 8081: "metrics", 8090: "the sample subscriber", 9092: "Kafka"}
#: What is missing -> the packages of Debian and Ubuntu, Fedora, and Homebrew.
_PACKAGES = {
    "python": ("python3 python3-venv", "python3", "python"),
    "venv": ("python3-venv", "python3", "python"),
    "java": ("openjdk-17-jre-headless", "java-21-openjdk-headless", "openjdk@21"),
}


def missing_here(*, java: bool = True) -> list[str]:
    """Returns sentences: what this machine lacks, then the command that installs it. Empty if nothing is missing."""
    lacks: dict[str, str] = {}
    if sys.version_info < PYTHON_MIN:
        least, here = (".".join(map(str, number)) for number in (PYTHON_MIN, sys.version_info[:3]))
        lacks["python"] = (
            f"Python {least} or newer: {sys.executable} is version {here}. To use another Python: make PYTHON=..."
        )
    elif any(find_spec(name) is None for name in ("ensurepip", "venv")):
        lacks["venv"] = f"the modules venv and ensurepip, which {sys.executable} does not have"
    if java and (why := java_problem()):
        lacks["java"] = f"Java {JAVA_MIN} or newer, for Kafka: {why}"
    if not lacks:
        return []
    debian, fedora, homebrew = (" ".join(_PACKAGES[name][place] for name in lacks) for place in range(3))
    return [
        *(f"  {words}" for words in lacks.values()),
        "Install it with:",
        f"  Debian, Ubuntu   sudo apt-get install {debian}",
        f"  Fedora           sudo dnf install {fedora}",
        f"  macOS            brew install {homebrew}",
    ]


def busy_ports(ports: Iterable[int] = tuple(PORTS)) -> list[int]:
    """Returns those ports of loopback that another program uses."""
    return [port for port in ports if not is_free(port)]


def is_free(port: int) -> bool:
    """Returns whether this process could listen on loopback at `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def find_java() -> str:
    """Returns the path of a `java` that can run Kafka. Raises PenstockError with a hint."""
    if why := java_problem():
        debian, fedora, homebrew = _PACKAGES["java"]
        raise PenstockError(
            f"Kafka on this machine needs Java {JAVA_MIN} or newer: {why}.",
            f"Install it (Debian, Ubuntu: apt-get install {debian}; Fedora: dnf install {fedora}; macOS: brew install "
            f"{homebrew}). Or use a Kafka of your own: penstock up --kafka HOST:PORT.",
        )
    return str(shutil.which("java"))


def java_problem() -> str | None:
    """Returns why the `java` of the PATH cannot run Kafka. None: it can."""
    java = shutil.which("java")
    if java is None:
        return "there is no `java` on the PATH"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30.0)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"`{java} -version` does not work ({problem})"
    major = java_major(done.stderr + done.stdout)
    if major is None:
        return f"`{java} -version` does not print a version"
    return f"`{java}` is {major}" if major < JAVA_MIN else None


def java_major(text: str) -> int | None:
    """Returns the major version in the output of `java -version`: 17 for `"17.0.15"`, 8 for `"1.8.0_402"`."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first
