"""Checks by a connection whether anything listens at Kafka's address, and with TLS. A Kafka client reports the first
much later, and the second without details.

Does not speak Kafka's protocol: a server that accepts the connection may still not answer.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

_CONNECT_LIMIT_S = 1.0
_DEFAULT_PORT = 9092
_HANDSHAKE_LIMIT_S = 3.0
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NAMES = frozenset({62, 63, 64})  # host name, e-mail address and IP address mismatch


def refusal(bootstrap: str) -> str | None:
    """Returns why no broker of `HOST:PORT[,...]` accepts a connection, such as "connection refused"; None = one may.

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
            return None
        else:
            return None
    return "; ".join(dict.fromkeys(reasons))


def split_address(broker: str) -> tuple[str, int]:
    """Returns host and port of `HOST:PORT`."""
    address = broker.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, str(_DEFAULT_PORT)
    return host.strip("[]"), int(port)


def tls_context(kafka: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns how a client with these librdkafka settings checks the brokers and shows itself. Raises OSError for files
    that cannot be read or used."""
    context = ssl.create_default_context(cafile=kafka.get("ssl.ca.location"))
    if "ssl.certificate.location" in kafka:
        # An encrypted key is an error, and not a question at the terminal.
        context.load_cert_chain(kafka["ssl.certificate.location"], kafka["ssl.key.location"], password="")
    return context


def handshake_problem(kafka: Mapping[str, Any]) -> str | None:
    """Returns what a TLS handshake with the first broker that accepts a connection shows; None = nothing is wrong, or
    no broker accepts one. Blocks for some seconds at most."""
    uses_tls = str(kafka.get("security.protocol", "")).endswith("SSL")
    try:
        context = tls_context(kafka) if uses_tls else _unchecked()
    except OSError as problem:
        return f"the certificates of the Kafka secret cannot be read ({problem.strerror})"
    end_s = time.monotonic() + _HANDSHAKE_LIMIT_S
    for broker in str(kafka["bootstrap.servers"]).split(","):
        host, port = split_address(broker.strip())
        try:
            with socket.create_connection((host, port), max(0.1, end_s - time.monotonic())) as connection:
                try:
                    context.wrap_socket(connection, server_hostname=host).close()
                except OSError as problem:
                    return _of_handshake(problem, host) if uses_tls else None
                return None if uses_tls else "this listener uses TLS; set protocol to SSL or SASL_SSL in a Kafka secret"
        except OSError:
            continue
    return None


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _of_handshake(problem: OSError, host: str) -> str | None:
    if isinstance(problem, TimeoutError):
        return None
    if not isinstance(problem, ssl.SSLCertVerificationError):
        # Kafka without TLS ends the connection, and so may a load balancer, or a Kafka that wants another TLS version.
        return "the TLS handshake failed; check that this listener uses TLS, and check protocol in the Kafka secret"
    if problem.verify_code == _EXPIRED:
        return "the broker's certificate has expired; renew it, or correct the clock of this machine"
    if problem.verify_code in _NAMES:
        return (
            f"the broker's certificate is not for {host}; use the host names that the certificates of the brokers have"
        )
    return (
        f"the broker's certificate cannot be verified ({problem.verify_message}); ca.crt of the Kafka secret must have "
        "the authority that signed it"
    )
