"""What Linux shows of processes, whose threads and files come and go while it is read.

Between a listing of /proc and the reading of an entry, the entry may end: then it is left out, and a process that has
ended has nothing. Nothing else in tests and benchmarks lists folders of /proc.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """A process at one moment. `cpu_s`: user and system time so far, with that of the children it has waited for."""

    parent: int
    cpu_s: float


def children(pid: int) -> list[int]:
    """The processes that this one has started, by whichever of its threads, and has not waited for; ascending."""
    # Not by task/TID/children: Linux skips some of them there when another one ends meanwhile.
    return sorted(child for child, stat in _stats() if stat.parent == pid)


def tree(pid: int) -> dict[int, Stat]:
    """A process and all below it."""
    stats = dict(_stats())
    pids = {pid}
    while below := {child for child, stat in stats.items() if stat.parent in pids} - pids:
        pids |= below
    return {each: stats[each] for each in sorted(pids & stats.keys())}


def busy_cores(seconds: float) -> float:
    """How many cores all processes of the machine use together, in the seconds that follow."""
    before, begun_s = _busy_s(), time.monotonic()
    time.sleep(seconds)
    return (_busy_s() - before) / (time.monotonic() - begun_s)


def _busy_s() -> float:
    user, nice, system, _idle, _waiting, *interrupts = map(int, (_PROC / "stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + sum(interrupts[:3])) / _TICKS


def cpu_s(pid: int) -> float:
    """User and system time of a process that runs, so far."""
    return sum(map(int, _fields((_PROC / str(pid) / "stat").read_bytes())[11:13])) / _TICKS


def start_time(pid: int) -> int | None:
    """Distinguishes this process from later ones with its id; None when it does not run or is a zombie."""
    try:
        fields = _fields((_PROC / str(pid) / "stat").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def pss_mb(pid: int) -> float:
    """The memory of a process, with its part of each page that several have. Raises OSError when it has ended."""
    lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def thread_names(pid: int) -> dict[int, str]:
    """Thread -> its name."""
    return dict(_each(_PROC / str(pid) / "task", lambda task: (task / "comm").read_text(errors="replace").strip()))


def open_files(pid: int) -> dict[int, str]:
    """Descriptor -> what it leads to, such as a path or `socket:[123]`."""
    return dict(_each(_PROC / str(pid) / "fd", lambda file: str(file.readlink())))


def _stats() -> Iterator[tuple[int, Stat]]:
    return _each(_PROC, lambda process: _stat((process / "stat").read_bytes()))


def _fields(line: bytes) -> list[bytes]:
    # The name in parentheses may contain spaces and parentheses; the state, which is the third field, follows it.
    return line.rpartition(b")")[2].split()


def _stat(line: bytes) -> Stat:
    fields = _fields(line)
    return Stat(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)


def _each(folder: Path, read: Callable[[Path], T]) -> Iterator[tuple[int, T]]:
    """The numbered entries of a folder of /proc, without those that end while it is read."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return
    for name in names:
        if name.isdigit():
            try:
                facts = read(folder / name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(name), facts
