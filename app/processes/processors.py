"""How many processors this process may use: those that it may run on, or fewer by the quota of its cgroup."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

_PROCESSES_MAX = 99  # as the setting allows


def processors(allowed: int, root: Path = Path("/")) -> int:
    """Returns 1 to 99. `allowed`: by affinity. Reads the limits of cgroups v2, of the group and those that it is in."""
    counts, top = [allowed, _PROCESSES_MAX], root / "sys/fs/cgroup"
    groups: list[str] = []
    with suppress(OSError):  # not Linux
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    for group in groups:
        folder = top / group.removeprefix("0::/")
        for limited in (folder, *folder.parents) if group.startswith("0::/") else ():
            with suppress(OSError):  # it has no limit, or a container does not see it
                quota, period = (limited / "cpu.max").read_text().split()
                if quota != "max":
                    counts.append(math.ceil(int(quota) / int(period)))
    return min(counts)
