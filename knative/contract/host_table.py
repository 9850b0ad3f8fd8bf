"""Which channel or broker has which host, by the contract. Pure.

The controller publishes no host that two claim, and none of another namespace. Whoever reads the contract does not rely
on it: a record may be older than that rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from knative.contract.records import Channel
from knative.hosts import owner_by_address, plain_host


def channels_by_host(channels: Iterable[Channel]) -> dict[str, Channel]:
    """Returns plain host -> its channel. A host that two of them claim has none, and neither has the address of a
    channel of another namespace. An unlisted channel has the hosts that no other claims."""
    table: dict[str, Channel] = {}
    contested: set[str] = set()
    for channel in sorted(channels, key=lambda channel: channel.unlisted):
        for host in map(plain_host, channel.hosts):
            if owner_by_address(host, channel.namespace) is not None:
                continue
            if table.setdefault(host, channel) is not channel and not channel.unlisted:
                contested.add(host)
    return {host: channel for host, channel in table.items() if host not in contested}
