"""TCP ports on loopback: checks them, and finds a free one."""

from __future__ import annotations

import random
import socket

from app.local.machine import LOOPBACK, is_free

__all__ = ["LOOPBACK", "free_port", "is_free", "is_open"]

#: Below the range that Linux uses for outgoing connections (from 32768), so a free port likely stays free.
_FREE = range(20_000, 32_000)


def is_open(port: int, limit_s: float = 0.5) -> bool:
    """Returns whether something on loopback takes connections at `port`."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=limit_s):
            return True
    except OSError:
        return False


def free_port() -> int:
    """Returns a port on loopback that was free a moment ago. Raises OSError when a thousand tries find none."""
    for _ in range(1000):
        port = random.choice(_FREE)
        if is_free(port):
            return port
    raise OSError(f"there is no free port between {_FREE.start} and {_FREE.stop}")
