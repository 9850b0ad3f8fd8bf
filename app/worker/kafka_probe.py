"""Does anything listen where Kafka should be? A Kafka client only says so when its time limit has passed.

Does not speak Kafka's protocol: what takes connections may still not answer.
"""

from __future__ import annotations

import socket

_CONNECT_LIMIT_S = 1.0
_DEFAULT_PORT = 9092


def refusal(bootstrap: str) -> str:
    """Why no broker of `HOST:PORT[,...]` can be connected to, such as "connection refused"; "" = perhaps one can.

    A broker that does not say no (a time limit passed) may be slow: that is left to Kafka's own client.
    """
    reasons: list[str] = []
    for broker in bootstrap.split(","):
        host, port = _split(broker.strip())
        try:
            socket.create_connection((host, port), _CONNECT_LIMIT_S).close()
        except ConnectionRefusedError:
            reasons.append("connection refused")
        except socket.gaierror:
            reasons.append(f"the name {host} is not known")
        except OSError:
            return ""
        else:
            return ""
    return "; ".join(dict.fromkeys(reasons))


def _split(broker: str) -> tuple[str, int]:
    address = broker.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, str(_DEFAULT_PORT)
    return host.strip("[]"), int(port)
