"""Full disks: a small file system in memory that a test fills and frees. Mounting one needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHUNK = b"\0" * 65_536
_MOUNT_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """Mounted at `folder`."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """Write until nothing more fits."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(_CHUNK):
                    continue
            except OSError:
                return

    def free(self) -> None:
        """Give back what `fill` took."""
        self._filler.unlink()


def mountable() -> str:
    """Why no disk can be mounted here; "" when one can."""
    return "" if os.geteuid() == 0 else "mounting a small disk needs root"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A tmpfs of this size. Raises CalledProcessError when it cannot be mounted."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, timeout=_MOUNT_LIMIT_S)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=_MOUNT_LIMIT_S)
