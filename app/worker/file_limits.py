"""Raises the soft RLIMIT_NOFILE, usually 1,024, so that `connections_max` sockets fit. Never lowers it.

The hard limit stays as it is. When it is too low the worker starts all the same and logs a warning.
"""

from __future__ import annotations

import resource

#: Least number for everything but clients' connections: Kafka, subscribers, listening ports, log and state files.
OTHERS_MIN = 200
#: Wanted number for the same: each subscriber has a connection pool of its own.
_OTHERS = 4096


def allow(connections: int) -> str | None:
    """Raise the limit for this number of clients' connections. Returns a warning for the operator, or None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = raised(soft, hard, connections + _OTHERS)
    if limit != soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):  # a system may have a limit of its own below the hard one
            limit = soft
    return shortage(limit, connections)


def raised(soft: int, hard: int, needed: int) -> int:
    """Returns the soft limit to set."""
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft
    return needed if hard == resource.RLIM_INFINITY else max(soft, min(hard, needed))


def shortage(limit: int, connections: int) -> str | None:
    """Returns a sentence when the connections cannot all be opened, else None."""
    if limit == resource.RLIM_INFINITY or limit >= connections + OTHERS_MIN:
        return None
    return (
        f"This process may open {limit} files and sockets, fewer than PENSTOCK_CONNECTIONS_MAX={connections} and "
        f"{OTHERS_MIN} others need: raise the hard limit (`ulimit -Hn`), or lower the setting."
    )
