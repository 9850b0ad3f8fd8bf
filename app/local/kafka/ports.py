"""TCP ports on loopback: checks them, and finds a free one."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
#: Below the range that Linux uses for outgoing connections (from 32768), so a free port likely stays free.
_FIRST, _LAST = 20_000, 32_000


def is_free(port: int) -> bool:
    """True when this process could listen on loopback at `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_open(port: int, limit_s: float = 0.5) -> bool:
    """True when something on loopback takes connections at `port`."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=limit_s):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A port on loopback that was free a moment ago. Raises OSError when a thousand tries find none."""
    for _ in range(1000):
        port = random.randint(_FIRST, _LAST)
        if is_free(port):
            return port
    raise OSError(f"no free port between {_FIRST} and {_LAST}")
