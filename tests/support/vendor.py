"""Takes scripts of others from published npm packages: `make vendor`, which needs npm.

`lock.json` of each folder has the version, the licence, npm's hash of the package, and the SHA-256 of each file. What
npm serves must have these hashes. For another version, write it there with `null` for its hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.support.processes import REPOSITORY

SHIPPED = REPOSITORY / "web" / "console" / "vendor"  #: what the console serves
FOR_TESTS = REPOSITORY / "tests" / "browser" / "vendor"
LOCK = "lock.json"


def read_lock(folder: Path) -> dict[str, Any]:
    """Package -> version, integrity, licence, and its files: path in the package -> name here, SHA-256."""
    packages: dict[str, Any] = json.loads((folder / LOCK).read_text("utf-8"))
    return packages


def fetch(name: str, package: dict[str, Any]) -> dict[str, bytes]:
    """Path in the package -> content, of the files that the lock names. Raises SystemExit if npm serves another package
    than the lock has; an integrity of None takes what it serves."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, f"{name}@{package['version']}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        (packed,) = Path(folder).glob("*.tgz")
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if package["integrity"] not in (None, integrity):
            raise SystemExit(f"{name} {package['version']}: npm serves {integrity}, and lock.json has another hash.")
        package["integrity"] = integrity
        with tarfile.open(packed) as archive:
            return {path: _content(archive, path) for path in package["files"]}


def _content(archive: tarfile.TarFile, path: str) -> bytes:
    file = archive.extractfile(f"package/{path}")
    assert file is not None, f"{path} is not a file"
    return file.read()


def take(folder: Path) -> None:
    """Write the files, and the lock file with what was missing in it."""
    packages = read_lock(folder)
    for name, package in packages.items():
        for path, content in fetch(name, package).items():
            file = package["files"][path]
            summed = hashlib.sha256(content).hexdigest()
            if file["sha256"] not in (None, summed):
                raise SystemExit(f"{name} {path}: its SHA-256 is {summed}, and lock.json has another one.")
            file["sha256"] = summed
            (folder / file["name"]).write_bytes(content)
    (folder / LOCK).write_text(json.dumps(packages, indent=2) + "\n", "utf-8")
    print(f"{folder.relative_to(REPOSITORY)}: {len(packages)} packages", file=sys.stderr)


if __name__ == "__main__":
    for vendor in (SHIPPED, FOR_TESTS):
        take(vendor)
