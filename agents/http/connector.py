"""One new connection to a destination: look up, judge, connect, TLS.

    host --Names--> addresses --guard, each--> connect to that very address --> TLS, certificate checked by name

The name is looked up once for each connection, and the connection is made to an address that was judged: there is no
second look-up in between that could answer differently. Refuses to keep connections and to know HTTP.
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

_P = TypeVar("_P", bound=asyncio.Protocol)

#: A name with more addresses than this is not tried to its end within one attempt.
ADDRESSES_MAX = 8


class SendError(Exception):
    """An attempt that got no answer.

    `kind`: "connect", "read", "timeout", "dns", "tls", "refused" (the egress guard, or a URI nothing can be sent to) or
    "closed" (by us).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


async def connect(
    target: Endpoint,
    ca_certs: str,
    guard: EgressGuard,
    connect_limit_s: float,
    loop: asyncio.AbstractEventLoop,
    names: Resolver,
    factory: Callable[[], _P],
) -> _P:
    """A connected protocol made by `factory`. `connect_limit_s` is for each address. Raises SendError."""
    context = _tls_context(ca_certs) if target.tls else None
    refused: list[str] = []
    failed: SendError | None = None
    for address in await _addresses(target, names):
        reason = guard.judge(address)
        if reason:
            refused.append(f"{address} {reason}")
            continue
        try:
            async with asyncio.timeout(connect_limit_s):
                _, protocol = await loop.create_connection(
                    factory,
                    address,
                    target.port,
                    ssl=context,
                    server_hostname=target.server_name if context else None,
                )
            return protocol
        except TimeoutError:
            failed = SendError("connect", f"no connection to {address} port {target.port} in {connect_limit_s:g} s")
        except ssl.SSLError as error:
            failed = SendError("tls", _said(error))
        except OSError as error:
            failed = SendError("connect", f"{address} port {target.port}: {_said(error)}")
    raise failed or SendError("refused", "; ".join(refused))


async def _addresses(target: Endpoint, names: Resolver) -> list[str]:
    try:
        addresses = await names.addresses()
    except (OSError, UnicodeError) as error:
        raise SendError("dns", f"{target.host}: {_said(error)}") from None
    if not addresses:
        raise SendError("dns", f"{target.host} has no address")
    return addresses[:ADDRESSES_MAX]


@lru_cache(maxsize=64)
def _cached_context(ca_certs: str) -> ssl.SSLContext:
    # The bundle takes the place of the system's CAs. Reading those takes some 10 ms: once per process and bundle.
    context = ssl.create_default_context(cadata=ca_certs or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _tls_context(ca_certs: str) -> ssl.SSLContext:
    try:
        return _cached_context(ca_certs)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise SendError("tls", f"the CA bundle cannot be read: {_said(error)}") from None


def _said(error: BaseException) -> str:
    return (getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)) or type(
        error
    ).__name__
