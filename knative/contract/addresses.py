"""Finds whether a URL is the address of a channel or broker of this contract: then its events come back and may loop.

    http://orders-kn-channel.shop.svc.cluster.local/     a host that the channel publishes
    http://any-ingress:8080/channels/shop/orders         its path, on any host
    http://any-ingress:8080/shop/main                    a broker's path, on any host; also /brokers/shop/main

The rules are those of ingress. Does not use DNS.
"""

from __future__ import annotations

from collections.abc import Iterable

from knative.contract.host_table import channels_by_host
from knative.contract.records import BROKER, Channel
from knative.hosts import plain_host


def paths_of(channel: Channel) -> tuple[str, ...]:
    """Returns the URL paths of a channel or broker."""
    return (channel.path, f"/brokers{channel.path}") if channel.kind == BROKER else (channel.path,)


class Addresses:
    """Every address of the channels of one contract."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        self._paths: dict[str, Channel] = {}
        self._topics: dict[str, Channel] = {}
        in_order = sorted(channels, key=lambda channel: (channel.namespace, channel.name, channel.uid))
        self._hosts = channels_by_host(in_order)
        for channel in in_order:
            for path in paths_of(channel):
                self._paths.setdefault(path, channel)
            self._topics.setdefault(channel.topic, channel)

    def channel_at(self, uri: str) -> Channel | None:
        """Returns the channel that a request to this URI would reach; None if it leads elsewhere."""
        # Not urlsplit: URIs in the contract are already valid, and it takes ten times as long for a million of them.
        rest = uri.partition("://")[2].partition("?")[0]
        host, _, path = rest.partition("/")
        if path:
            return self._paths.get("/" + path.removesuffix("/"))
        return self._hosts.get(plain_host(host))

    def channel_of_topic(self, topic: str) -> Channel | None:
        """Returns the channel whose events are stored in this topic."""
        return self._topics.get(topic)
