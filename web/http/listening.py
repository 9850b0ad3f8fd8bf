"""The sockets of a server. They may be older than the process: the process before it passes them on, or systemd does.

A socket that was passed on listens already: connections wait in its queue, and the server takes them as soon as it can
answer. A new one refuses connections until then.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from web.http.config import OTHER_PORT, cannot_listen


def open_sockets(
    bind: str, port: int, passed: Iterable[socket.socket] = (), hint: str = OTHER_PORT
) -> list[socket.socket]:
    """Returns a socket for each address of `bind`: the one of `passed` that has it, or a new one. Raises PenstockError
    with `hint` when an address is not available."""
    by_address = {listener.getsockname()[:2]: listener for listener in passed}
    sockets: list[socket.socket] = []
    try:
        flags = socket.AI_PASSIVE
        for family, _, _, _, address in socket.getaddrinfo(bind or None, port, type=socket.SOCK_STREAM, flags=flags):
            sockets.append(by_address.get(address[:2]) or _bound(family, address))
    except OSError as problem:
        for opened in sockets:
            opened.close()
        raise cannot_listen(bind, port, problem, hint) from problem
    return sockets


def is_passed_on(listener: socket.socket) -> bool:
    """Returns whether it listened before this process did anything with it."""
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # otherwise :: would take the port of 0.0.0.0 too
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
