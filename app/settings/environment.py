"""Environment variables of other programs: those that are not settings."""

from __future__ import annotations

import os
from collections.abc import Mapping


def default_variables(values: Mapping[str, str]) -> None:
    """Set environment variables that a library reads itself, unless they are set already."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def take_listening() -> int:
    """Returns how many sockets were passed on to this process, by systemd's protocol. Children must not see it."""
    count, process = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    return int(count) if count.isdigit() and process == str(os.getpid()) else 0


def set_listening(count: int) -> None:
    """Pass the number of sockets on to the program that takes the place of this one."""
    os.environ.update(LISTEN_FDS=str(count), LISTEN_PID=str(os.getpid()))


_CHILDREN = "LISTEN_CHILDREN"


def set_children(pids: Mapping[int, int], folder: str) -> None:
    """Say to the program that takes the place of this supervisor which processes it has (seat -> process id), and where
    their sockets are."""
    os.environ[_CHILDREN] = f"{os.getpid()} {','.join(f'{seat}:{pid}' for seat, pid in pids.items())} {folder}"


def take_children() -> tuple[dict[int, int], str] | None:
    """Returns the processes and the place that the former program named in `set_children`; None = this is not a
    supervisor. Workers must not see it."""
    process, _, rest = os.environ.pop(_CHILDREN, "").partition(" ")
    if process != str(os.getpid()):
        return None
    pids, _, folder = rest.partition(" ")
    pairs = (text.split(":") for text in pids.split(",") if text)
    return {int(seat): int(pid) for seat, pid in pairs}, folder


#: Variables by which PySpark would start another Spark than the installed one, or start it with other options.
_OF_OTHER_SPARKS = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE")


def forget_other_sparks(home: str) -> list[str]:
    """Remove what the environment says about another Spark than the one in `home`. Returns the names that were set."""
    names = [name for name in _OF_OTHER_SPARKS if os.environ.get(name, home) != home]
    for name in _OF_OTHER_SPARKS:
        os.environ.pop(name, None)
    return names


def started_by_spark_submit() -> bool:
    """Returns whether spark-submit started this process, and so chose the master of its session."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
