"""Downloads sets of jars from Maven Central once, checks them, and puts them in place in one step.

    pom.xml -> mvn dependency:copy-dependencies -> a temporary folder -> sha256 of every jar -> rename to libs-<hash>

The folder's name has the hash of the pom, so versions never mix. A lock file lets several processes ask for the jars at
once. Jars with other checksums than the recorded ones are an error.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from app.local.kafka.jar_sets import KAFKA, JarSet
from app.local.kafka.locks import locked
from app.local.kafka.maven import copy_jars
from knative.errors import PenstockError, os_reason

#: Called with (jars that arrived, jars expected) whenever one arrives.
Progress = Callable[[int, int], None]

_LIMIT_S = 900.0  #: for one download; slow lines take minutes


def libs_folder(root: Path, jars: JarSet = KAFKA) -> Path:
    """The folder for the jars of this version; it may not exist yet."""
    return root / f"libs-{hashlib.sha256(jars.pom.read_bytes()).hexdigest()[:12]}"


def read_manifest(text: str) -> dict[str, str]:
    """Jar name -> sha256 in hex, from lines as `sha256sum` writes them."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {name.lstrip("*").strip(): digest for digest, name in pairs}


def ensure_jars(root: Path, progress: Progress | None = None, limit_s: float = _LIMIT_S, jars: JarSet = KAFKA) -> Path:
    """The folder with all `jars` under `root`, downloaded if needed. Raises PenstockError with a hint."""
    target = libs_folder(root, jars).absolute()
    wanted = read_manifest(jars.manifest.read_text())
    if _is_whole(target, wanted):
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "libs.lock", limit_s, f"is downloading the jars of {jars.owner}"):
            if not _is_whole(target, wanted):  # otherwise another process downloaded them while this one waited
                _bring(target, jars, wanted, progress or _silent, limit_s)
    except OSError as problem:
        raise PenstockError(
            f"The jars of {jars.owner} cannot be stored under {root}: {os_reason(problem)}.",
            f"They take {jars.megabytes} MB there and 80 MB in Maven's own store; free some space or check the "
            "permissions.",
        ) from problem
    return target


def _silent(_arrived: int, _expected: int) -> None:
    """For callers without progress output."""


def _is_whole(folder: Path, wanted: dict[str, str]) -> bool:
    try:
        return {name for name in os.listdir(folder) if name.endswith(".jar")} == wanted.keys()
    except (FileNotFoundError, NotADirectoryError):
        return False


def _bring(target: Path, jars: JarSet, wanted: dict[str, str], progress: Progress, limit_s: float) -> None:
    for left_over in target.parent.glob(".libs-*"):  # of a killed process, because we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".libs-", dir=target.parent))
    try:
        arrived: set[str] = set()

        def seen(name: str) -> None:
            if name in wanted and name not in arrived:
                arrived.add(name)
                progress(len(arrived), len(wanted))

        progress(0, len(wanted))
        copy_jars(jars, staging, seen, limit_s, log=target.parent / "maven.log")
        check_jars(staging, wanted)
        if len(arrived) < len(wanted):  # Maven is silent about jars that were in its own store
            progress(len(wanted), len(wanted))
        staging.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)  # exists only when jars were removed from it
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_jars(folder: Path, wanted: dict[str, str]) -> None:
    """Raises PenstockError unless `folder` holds exactly the recorded jars with the recorded content."""
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}
    if found == wanted:
        return
    wrong = sorted(name for name in found.keys() & wanted.keys() if found[name] != wanted[name])
    problems = {
        "with another checksum than recorded": wrong,
        "missing": sorted(wanted.keys() - found.keys()),
        "not expected": sorted(found.keys() - wanted.keys()),
    }
    details = "; ".join(f"{why}: {', '.join(names[:3])}" for why, names in problems.items() if names)
    raise PenstockError(
        f"The jars that Maven downloaded are not the recorded ones ({details}).",
        "Remove these from Maven's store (~/.m2/repository) and try again; if that does not help, check the proxy or "
        "mirror between you and Maven Central.",
    )
