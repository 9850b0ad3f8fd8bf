"""Opens a connection to a destination: resolve, check the address, connect, TLS.

    host --resolver--> addresses --guard, each--> connect to that very address --> TLS, certificate checked by name

The name is resolved once per connection, and the connection goes to an address that the guard has checked. Does not
resolve the name a second time: that answer could be another address (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from agents.http.egress_guard import EgressGuard
from agents.http.endpoint import Endpoint
from agents.http.resolver import Resolver
from knative.delivery.verdicts import SendProblem

_P = TypeVar("_P", bound=asyncio.Protocol)

#: Addresses of one name that are tried within one attempt.
ADDRESSES_MAX = 8


class SendError(Exception):
    """An attempt got no answer."""

    def __init__(self, problem: SendProblem, message: str) -> None:
        super().__init__(f"{problem}: {message}")
        self.problem = problem
        self.message = message


async def connect(
    endpoint: Endpoint,
    ca_certs: str,
    guard: EgressGuard,
    connect_limit_s: float,
    loop: asyncio.AbstractEventLoop,
    resolver: Resolver,
    factory: Callable[[], _P],
) -> _P:
    """Connect, with a protocol made by `factory`. `connect_limit_s` applies to each address. Raises SendError."""
    context = _tls_context(ca_certs) if endpoint.tls else None
    refused: list[str] = []
    failed: SendError | None = None
    for address in await _addresses(endpoint, resolver):
        reason = guard.judge(address)
        if reason:
            refused.append(f"{address} {reason}")
            continue
        try:
            async with asyncio.timeout(connect_limit_s):
                _, protocol = await loop.create_connection(
                    factory,
                    address,
                    endpoint.port,
                    ssl=context,
                    server_hostname=endpoint.server_name if context else None,
                )
            return protocol
        except TimeoutError:
            failed = SendError(
                SendProblem.CONNECT, f"no connection to {address} port {endpoint.port} within {connect_limit_s:g} s"
            )
        except ssl.SSLError as error:
            failed = SendError(SendProblem.TLS, _reason(error))
        except OSError as error:
            failed = SendError(SendProblem.CONNECT, f"{address} port {endpoint.port}: {_reason(error)}")
    # An address that failed says more than one that the guard has refused.
    raise failed or SendError(SendProblem.REFUSED, "; ".join(refused))


async def _addresses(endpoint: Endpoint, resolver: Resolver) -> list[str]:
    try:
        addresses = await resolver.addresses()
    except (OSError, UnicodeError) as error:
        raise SendError(SendProblem.DNS, f"{endpoint.host}: {_reason(error)}") from None
    if not addresses:
        raise SendError(SendProblem.DNS, f"{endpoint.host} has no address")
    return addresses[:ADDRESSES_MAX]


@lru_cache(maxsize=64)
def _cached_context(ca_certs: str) -> ssl.SSLContext:
    # The bundle replaces the system's CAs. Loading those takes about 10 ms, so it is done once per process and bundle.
    context = ssl.create_default_context(cadata=ca_certs or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _tls_context(ca_certs: str) -> ssl.SSLContext:
    try:
        return _cached_context(ca_certs)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise SendError(SendProblem.TLS, f"the CA bundle cannot be read: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return (getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)) or type(
        error
    ).__name__
