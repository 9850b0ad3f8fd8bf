"""Ownership of topics and hosts: no two resources may share one by accident. This includes DLQ topics.

The first resource to claim a topic owns it and keeps it. Published resources claim first, then the others by name.
A host that several claim has no owner: nothing says which of them its senders mean. Only the address of a channel
belongs to that channel, whoever else claims it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.config import ControllerConfig
from controller.plan.actions import Object, World
from controller.plan.specs import ChannelSpec
from knative.contract import kafka_names
from knative.contract.records import CHANNEL
from knative.hosts import channel_host


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The owner of a name. `leaving`: it is being removed, and the name is free afterwards."""

    uid: str
    label: str
    leaving: bool = False


class Ownership:
    """The owners of topics and hosts."""

    def __init__(self) -> None:
        self._topics: dict[str, ClaimOwner] = {}
        self._hosts: dict[str, dict[str, ClaimOwner]] = {}  #: host -> who claims it, by uid
        self._channels: dict[str, ClaimOwner] = {}  #: short cluster host name -> its channel

    def claim_topics(self, owner: ClaimOwner, topics: Iterable[str]) -> ClaimOwner | None:
        """Claim all of `topics` or none. None = claimed; else the present owner of one of them."""
        return _claim(self._topics, owner, [kafka_names.collision_key(topic) for topic in topics])

    def name_channel(self, owner: ClaimOwner, short_host: str) -> None:
        """Give a channel its cluster host name, with any domain."""
        self._channels[short_host] = owner

    def claim_host(self, owner: ClaimOwner, host: str) -> None:
        """Claim a host."""
        self._hosts.setdefault(host, {})[owner.uid] = owner

    def host_problem(self, owner: ClaimOwner, host: str) -> str | None:
        """Returns why `owner` does not have a host that it claims; None = it has it."""
        channel = self._channels.get(short_host(host))
        if channel is not None:
            return None if channel.uid == owner.uid else f"belongs to {channel.label}, whose address it is"
        rivals = sorted(other.label for uid, other in self._hosts.get(host, {}).items() if uid != owner.uid)
        return f"is also claimed by {', '.join(rivals)}, so no resource has it" if rivals else None


def _claim(taken: dict[str, ClaimOwner], owner: ClaimOwner, keys: Sequence[str]) -> ClaimOwner | None:
    for key in keys:
        other = taken.get(key)
        if other is not None and other.uid != owner.uid:
            return other
    taken.update(dict.fromkeys(keys, owner))
    return None


def short_host(host: str) -> str:
    """Returns a cluster host name without its domain."""
    name, svc, _ = f"{host}.".partition(".svc.")
    return f"{name}{svc}".rstrip(".")


def service_hosts(channel: ChannelSpec, config: ControllerConfig) -> tuple[str, ...]:
    """Returns the cluster host names of every channel, the full one first. Brokers share a host and differ by path."""
    if channel.kind != CHANNEL:
        return ()
    short = channel_host(channel.namespace, channel.name)
    return f"{short}.{config.cluster_domain}".lower(), short


def channel_topic(channel: Object[ChannelSpec], world: World) -> str:
    """Returns the recorded topic of a published channel, even if the template has changed; else the spec's."""
    published = world.channels.get(channel.uid)
    return channel.resource.topic if published is None else published.topic


def channel_owner(uid: str, kind: str, namespace: str, name: str) -> ClaimOwner:
    """Returns a channel or broker as an owner of names."""
    return ClaimOwner(uid, f"{kind} {namespace}/{name}")


def first_claims(channels: Sequence[Object[ChannelSpec]], world: World, config: ControllerConfig) -> Ownership:
    """Returns the first claims on topics, of published channels and of removals in progress; all claims on hosts."""
    claims = Ownership()
    for record in world.channels.values():
        owner = channel_owner(record.uid, *record.key)
        owner = replace(owner, leaving=record.uid in world.removals)
        claims.claim_topics(owner, (record.topic, record.dlq_topic))
    for removal in world.removals.values():
        leaving = ClaimOwner(f"removal {removal.uid}", f"{removal.kind} {removal.label}", leaving=True)
        claims.claim_topics(leaving, removal.topics)
    for channel in channels:
        owner = channel_owner(channel.uid, *channel.resource.key)
        for host in service_hosts(channel.resource, config)[-1:]:
            claims.name_channel(owner, host)
        for host in channel.resource.hosts:
            claims.claim_host(owner, host)
    for record in world.channels.values():  # what a record still has is free when its next record is published
        for host in () if record.unlisted else record.hosts:
            claims.claim_host(channel_owner(record.uid, *record.key), host)
    return claims
