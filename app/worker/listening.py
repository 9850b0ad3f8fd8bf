"""Checks that a worker can listen on its ports before anything else starts, so that a port in use is reported at once.

Does not reserve the ports: the server that listens later may still fail, with the same message.
"""

from __future__ import annotations

import socket

from web.http.config import OTHER_PORT, cannot_listen


def check(bind: str, port: int, hint: str = OTHER_PORT) -> None:
    """Raises PenstockError with `hint` when nothing can listen there now."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as problem:
        raise cannot_listen(bind, port, problem, hint) from problem
