"""Downloads sets of jars from a Maven repository once, checks them, and puts them in place in one step.

    jars.sha256 -> GET each jar, by its path in a Maven repository -> its sha256 -> rename all to libs-<hash>

The folder's name has the hash of the list, so versions never mix. A lock file lets several processes ask for the jars
at once. Jars with other checksums than the recorded ones are an error.
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
from app.settings import load_settings
from app.timing import LONG_S
from knative.errors import NotReadyError, PenstockError, os_reason
from knative.urls import shown_url

#: Called with (jars that arrived, jars expected) whenever one arrives.
Progress = Callable[[int, int], None]


def libs_folder(root: Path, jars: JarSet = KAFKA) -> Path:
    """Returns the folder for the jars of this version; it may not exist yet."""
    return root / f"libs-{hashlib.sha256(jars.manifest.read_bytes()).hexdigest()[:12]}"


def read_manifest(text: str) -> dict[str, str]:
    """Returns path in a Maven repository -> sha256 in hex, from lines as `sha256sum` writes them."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {path.lstrip("*").strip(): digest for digest, path in pairs}


def jar_names(jars: JarSet) -> set[str]:
    """Returns the file names of the jars."""
    return {Path(path).name for path in read_manifest(jars.manifest.read_text())}


def ensure_jars(root: Path, progress: Progress | None = None, limit_s: float = LONG_S, jars: JarSet = KAFKA) -> Path:
    """Returns the folder with all `jars` under `root`, downloaded if needed. Raises PenstockError with a hint."""
    target = libs_folder(root, jars).absolute()
    if _is_whole(target, jars):
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "libs.lock", limit_s, f"is downloading the jars of {jars.owner}"):
            if not _is_whole(target, jars):  # otherwise another process downloaded them while this one waited
                _bring(target, jars, progress or (lambda *_: None), limit_s)
    except OSError as problem:
        raise PenstockError(
            f"The jars of {jars.owner} cannot be stored under {root}: {os_reason(problem)}.",
            f"The jars need {jars.megabytes} MB there. Free some space, or check the permissions.",
        ) from problem
    return target


def _is_whole(folder: Path, jars: JarSet) -> bool:
    try:
        return {name for name in os.listdir(folder) if name.endswith(".jar")} == jar_names(jars)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _bring(target: Path, jars: JarSet, progress: Progress, limit_s: float) -> None:
    for left_over in target.parent.glob(".libs-*"):  # of a killed process, because we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    from app.local.kafka.download import NotDelivered, download  # its HTTP client takes long to import

    staging = Path(tempfile.mkdtemp(prefix=".libs-", dir=target.parent))
    settings = load_settings()
    repository = shown_url(settings.maven_repository)
    manifest = read_manifest(jars.manifest.read_text())
    try:
        download(manifest, settings.maven_repository, staging, progress, limit_s)
        staging.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)  # exists only when jars were removed from it
        staging.rename(target)
    except TimeoutError:
        raise NotReadyError(
            f"{repository} did not deliver the jars of {jars.owner} within {limit_s:.0f} s.",
            f"Try again, or set PENSTOCK_MAVEN_REPOSITORY to a mirror that is nearer. {jars.instead}".rstrip(),
        ) from None
    except NotDelivered as problem:
        raise PenstockError(
            f"The jars of {jars.owner} cannot be downloaded from {repository}: {problem}.",
            "Connect to the network and try again; the download is needed once. Behind a proxy, set HTTPS_PROXY; "
            "with a mirror, set "
            f"PENSTOCK_MAVEN_REPOSITORY. {jars.instead}".rstrip(),
        ) from problem
    finally:
        shutil.rmtree(staging, ignore_errors=True)
