"""Checks by a TCP connection whether anything listens at Kafka's address. A Kafka client reports that much later.

Does not speak Kafka's protocol: a server that accepts the connection may still not answer.
"""

from __future__ import annotations

import socket

_CONNECT_LIMIT_S = 1.0
_DEFAULT_PORT = 9092


def refusal(bootstrap: str) -> str:
    """Why no broker of `HOST:PORT[,...]` accepts a connection, such as "connection refused"; "" = one may.

    A broker that only times out may be slow: Kafka's own client finds that out.
    """
    reasons: list[str] = []
    for broker in bootstrap.split(","):
        host, port = split_address(broker.strip())
        try:
            socket.create_connection((host, port), _CONNECT_LIMIT_S).close()
        except ConnectionRefusedError:
            reasons.append("connection refused")
        except socket.gaierror:
            reasons.append(f"the host name {host} cannot be resolved")
        except OSError:
            return ""
        else:
            return ""
    return "; ".join(dict.fromkeys(reasons))


def split_address(broker: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`."""
    address = broker.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, str(_DEFAULT_PORT)
    return host.strip("[]"), int(port)
