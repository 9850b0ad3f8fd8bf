"""Host names of channels, and the namespaces that they belong to. Pure.

    orders-kn-channel.shop.svc[.cluster.local]   the address of the channel shop/orders: only the namespace shop has it
    anything.shop.svc[.cluster.local]            a Service of the namespace shop
    events.example.com                           any namespace's

The domain does not matter: ingress takes `orders-kn-channel.shop.svc` with any domain, or none, for shop/orders.
"""

from __future__ import annotations

import re

#: Finds the namespace of an address of a channel. In the syntax that Python and Java share: Spark evaluates it too.
ADDRESS_PATTERN = r"-kn-channel\.([^.]*)(?:\.svc(?:\.|$)|$)"
_ADDRESS = re.compile(ADDRESS_PATTERN)
_SERVICE = re.compile(r"(?<=[^.])\.([^.]*)\.svc(?:\.|$)")


def plain_host(host: str) -> str:
    """Returns a host in lower case, without port and trailing dots."""
    return host.lower().partition(":")[0].rstrip(".")


def service_of_channel(channel: str) -> str:
    """Returns the name of the Service that stands for a channel in its namespace."""
    return f"{channel}-kn-channel".lower()


def channel_host(namespace: str, channel: str) -> str:
    """Returns the short cluster host name of a channel; a domain may follow it."""
    return f"{service_of_channel(channel)}.{namespace}.svc".lower()


def owner_by_address(host: str, namespace: str) -> str | None:
    """Returns the other namespace that a plain host belongs to as the address of a channel there; None = no other.

    `namespace`: of the channel or broker that claims the host.
    """
    return next((owner for owner in _ADDRESS.findall(host) if owner != namespace), None)


def owner_by_service(host: str, namespace: str) -> str | None:
    """Returns the other namespace that a plain host belongs to as the name of a Service there; None = no other."""
    return next((owner for owner in _SERVICE.findall(host) if owner != namespace), None)
