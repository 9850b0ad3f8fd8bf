"""Decides whether events may be sent to a resolved IP address. Pure.

The connector checks every address of a name when it connects, and connects to the very address that passed. So a name
that resolves to another address a moment later (DNS rebinding) gains nothing.

There are three steps; the first one that applies decides:

    address --unwrap (mapped, 6to4, NAT64, ...)--> each address in it
        1. never:   link-local, cloud metadata, unspecified, multicast, reserved: no setting allows them
        2. deny:    networks that the operator denies
        3. loopback, private: as their settings say; networks in `allow` are exempt from these settings
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """Where events may go. `allow` and `deny` are CIDR networks; addresses that are neither loopback nor private are
    allowed."""

    allow_loopback: bool = True
    allow_private: bool = True
    allow: tuple[str, ...] = ()  #: exempt from the two settings above; `deny` and the addresses of step 1 still apply
    deny: tuple[str, ...] = ()


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_METADATA = "is a cloud metadata address"
_LINK_LOCAL = "is link-local"
_RESERVED = "is reserved"

#: The more specific reason comes first.
_NEVER: tuple[tuple[str, tuple[Network, ...]], ...] = (
    (
        _METADATA,
        _networks(
            "169.254.169.254/32",  # AWS, Azure, Google and most others
            "fd00:ec2::/32",  # AWS: metadata, and the credentials of pods
            "fd20:ce::254/128",  # Google
            "100.100.100.200/32",  # Alibaba
            "192.0.0.192/32",  # Oracle
            "168.63.129.16/32",  # Azure's wire server
        ),
    ),
    (_LINK_LOCAL, _networks("169.254.0.0/16", "fe80::/10")),
    ("is unspecified", _networks("0.0.0.0/8", "::/128")),
    ("is multicast", _networks("224.0.0.0/4", "ff00::/8")),
    (_RESERVED, _networks("240.0.0.0/4")),  # with 255.255.255.255
)
_LOOPBACK = _networks("127.0.0.0/8", "::1/128")
_PRIVATE = _networks(
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",  # carrier-grade NAT, the pod networks of some clouds
    "192.0.0.0/24",
    "198.18.0.0/15",
    "fc00::/7",
    "fec0::/10",
)

_MAPPED = ip_network("::ffff:0:0/96")
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")
_NAT64 = ip_network("64:ff9b::/96")
_NAT64_LOCAL = ip_network("64:ff9b:1::/48")
_SIX_TO_FOUR = ip_network("2002::/16")
_TEREDO = ip_network("2001::/32")
_ISATAP_IDS = frozenset((0x0000_5EFE, 0x0200_5EFE))


class EgressGuard:
    """Checks addresses against one config. Raises ValueError for a network that is not a valid CIDR network."""

    __slots__ = ("_allow", "_config", "_deny")

    def __init__(self, config: EgressConfig | None = None) -> None:
        self._config = config or EgressConfig()
        self._allow = _networks(*self._config.allow)
        self._deny = _networks(*self._config.deny)

    def judge(self, address: str) -> str | None:
        """Returns why events must not be sent to this IP address (text without a port); None when they may be."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return "is not a valid IP address"
        if parsed.version == 6 and parsed.scope_id is not None:
            parsed = IPv6Address(int(parsed))  # without its zone
        for unwrapped in _unwrapped(parsed):
            reason = self._judge_one(unwrapped)
            if reason:
                return reason if unwrapped == parsed else f"stands for {unwrapped}, which {reason}"
        return None

    def _judge_one(self, address: Address) -> str | None:
        for reason, networks in _NEVER:
            if _within(address, networks):
                return reason
        if _within(address, self._deny):
            return "is denied by PENSTOCK_EGRESS_DENY"
        if not self._config.allow_loopback and _within(address, _LOOPBACK) and not _within(address, self._allow):
            return "is a loopback address, which PENSTOCK_EGRESS_ALLOW_LOOPBACK forbids"
        if not self._config.allow_private and _within(address, _PRIVATE) and not _within(address, self._allow):
            return "is a private address, which PENSTOCK_EGRESS_ALLOW_PRIVATE forbids"
        return None


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _unwrapped(address: Address) -> Iterator[Address]:
    """Yields the IPv4 addresses that an IPv6 address may be translated to, then the address itself."""
    if isinstance(address, IPv6Address):
        for embedded in _embedded(address):
            yield IPv4Address(embedded & 0xFFFF_FFFF)
    yield address


def _embedded(address: IPv6Address) -> Iterator[int]:
    bits = int(address)
    if any(address in network for network in (_MAPPED, _TRANSLATED, _NAT64, _NAT64_LOCAL)):
        yield bits
    if address in _COMPATIBLE and bits > 1:  # not :: and ::1
        yield bits
    if address in _NAT64_LOCAL:  # the /48 form: 16 bits before octet 8, which is zero, 16 after it (RFC 6052, 2.2)
        yield (bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF
    if address in _SIX_TO_FOUR:
        yield bits >> 80
    if address in _TEREDO:  # the server, and the client's address with inverted bits
        yield bits >> 64
        yield ~bits
    if bits >> 32 & 0xFFFF_FFFF in _ISATAP_IDS:
        yield bits
