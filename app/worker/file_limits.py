"""How many files and sockets this process may open: a login's usual 1,024 are fewer than the connections it is to take.

Raises the soft limit (the hard one is the machine's to say) to what the settings ask for, and never lowers it. Refuses
to fail for it: what is missing is a sentence for the log.
"""

from __future__ import annotations

import resource

#: Beside the clients' connections, at the least: Kafka, subscribers, the listening ports, log and state files.
OTHERS_MIN = 200
#: What there should be for them: subscribers have a pool of connections each.
_OTHERS = 4096


def allow(connections: int) -> str:
    """Make room for so many connections of clients; "", or what to tell the operator."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = raised(soft, hard, connections + _OTHERS)
    if wanted != soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a system may have a limit of its own below the hard one
            wanted = soft
    return shortage(wanted, connections)


def raised(soft: int, hard: int, wanted: int) -> int:
    """The soft limit to set."""
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    return wanted if hard == resource.RLIM_INFINITY else max(soft, min(hard, wanted))


def shortage(limit: int, connections: int) -> str:
    """A sentence when the connections cannot all be opened, else ""."""
    if limit == resource.RLIM_INFINITY or limit >= connections + OTHERS_MIN:
        return ""
    return (
        f"This process may open {limit} files and sockets, fewer than PENSTOCK_CONNECTIONS_MAX={connections} and "
        f"{OTHERS_MIN} others need: raise the hard limit (`ulimit -Hn`), or lower the setting."
    )
