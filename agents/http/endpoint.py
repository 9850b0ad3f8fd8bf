"""Parses a destination's URI for a connection: host, port, TLS, and the head of every request. Pure.

The controller has checked URIs already (`knative/resources/destination`). They are checked again here, because they are
user input that goes onto the wire: credentials and anything that could end a line are rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, quote, urlsplit

from knative.urls import host_in_url

_DEFAULT_PORTS = {"http": 80, "https": 443}
_unfit = re.compile(r"[\x00-\x20\x7f]").search
_host = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII).fullmatch
_stray_percent = re.compile(r"%(?![0-9A-Fa-f]{2})")
_namespace = re.compile(r"[!-~]+", re.ASCII).fullmatch

#: Everything that RFC 3986 allows in a path, and `%`: what is already encoded does not change.
_PATH_SAFE = "/:@!$&'()*+,;=-._~%"
_QUERY_SAFE = _PATH_SAFE + "?"


class BadEndpoint(ValueError):
    """The URI is not valid for a request; the text says why and never quotes credentials."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect, and what to put into the request head."""

    host: str  #: an ASCII host name, or an IP address without brackets
    port: int
    tls: bool
    authority: str  #: the Host header
    path: str  #: path and query, percent-encoded
    address: str | None  #: the host when it is an IP address, which needs no DNS

    @property
    def server_name(self) -> str:
        """The name that the certificate must have."""
        return self.host.rstrip(".")

    def prefix(self, namespace: str, authorization: str | None = None) -> bytes:
        """Returns the head of a request, up to and without the line end before the event's own headers."""
        if not _namespace(namespace):
            raise ValueError(f"namespace {namespace!r} cannot be a header value")
        token = "" if authorization is None else f"\r\nauthorization: {authorization}"
        return (
            f"POST {self.path} HTTP/1.1\r\nhost: {self.authority}\r\nuser-agent: penstock\r\n"
            f"prefer: reply\r\nkn-namespace: {namespace}{token}"
        ).encode("ascii")


def read_endpoint(uri: str) -> Endpoint:
    """Read a URI. Raises BadEndpoint unless `uri` is an absolute http or https URI with a valid host and port."""
    if _unfit(uri):
        raise BadEndpoint("the URI contains white space or control characters")  # `urlsplit` would silently drop some
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:  # its message may quote a password
        raise BadEndpoint("the URI cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise BadEndpoint("the URI is not absolute http or https")
    if "@" in parts.netloc:
        raise BadEndpoint("the URI contains credentials")
    if port == 0:
        raise BadEndpoint("port 0 is not a valid port")
    host, address = _read_host(parts)
    text = host_in_url(host)
    default = _DEFAULT_PORTS[parts.scheme]
    return Endpoint(
        host=host,
        port=port or default,
        tls=parts.scheme == "https",
        authority=text if port in (None, default) else f"{text}:{port}",
        path=_read_path(parts),
        address=address,
    )


def _read_host(parts: SplitResult) -> tuple[str, str | None]:
    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            raise BadEndpoint("the URI's host is not a valid international domain name") from None
    address = _read_address(host)
    if address is not None:
        return str(address), str(address)
    if not _host(host) or len(host) > 253:
        raise BadEndpoint("the URI's host is not a valid host name")
    return host, None


def _read_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise BadEndpoint("the URI's address has a zone, which is only valid on one machine")
    return address


def _read_path(parts: SplitResult) -> str:
    path = _encoded(parts.path, _PATH_SAFE)
    path = path if path.startswith("/") else f"/{path}"
    return f"{path}?{_encoded(parts.query, _QUERY_SAFE)}" if parts.query else path


def _encoded(text: str, safe: str) -> str:
    return quote(_stray_percent.sub("%25", text), safe=safe, errors="replace")
