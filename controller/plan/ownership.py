"""Who owns which topic and which host: no two resources share one by accident, dead letter topics included.

First come, first served, and who is published came first; then by name. Refuses to take anything away from an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.config import ControllerConfig
from controller.plan.actions import Object, World
from knative.contract import kafka_names
from knative.resources.kinds import KafkaChannel


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """Who has a name. `leaving`: it is being removed, and the name is free when that is done."""

    uid: str
    label: str
    leaving: bool = False


class Ownership:
    """Names that are taken, and by whom."""

    def __init__(self) -> None:
        self._topics: dict[str, ClaimOwner] = {}
        self._hosts: dict[str, ClaimOwner] = {}

    def claim_topics(self, owner: ClaimOwner, topics: Iterable[str]) -> ClaimOwner | None:
        """Take all of them or none. None = taken; else who has one of them already."""
        return _claim(self._topics, owner, [kafka_names.collision_key(topic) for topic in topics])

    def claim_host(self, owner: ClaimOwner, host: str) -> ClaimOwner | None:
        """Take a host. None = taken; else who has it already."""
        return _claim(self._hosts, owner, [host])


def _claim(taken: dict[str, ClaimOwner], owner: ClaimOwner, keys: Sequence[str]) -> ClaimOwner | None:
    for key in keys:
        other = taken.get(key)
        if other is not None and other.uid != owner.uid:
            return other
    taken.update(dict.fromkeys(keys, owner))
    return None


def service_hosts(channel: KafkaChannel, config: ControllerConfig) -> tuple[str, str]:
    """The hosts that every channel has, the full one first."""
    short = f"{channel.name}-kn-channel.{channel.namespace}.svc".lower()
    return f"{short}.{config.cluster_domain}".lower(), short


def channel_topic(channel: Object[KafkaChannel], world: World, config: ControllerConfig) -> str:
    """The recorded topic of a published channel, whatever the template says by now; else the template's."""
    published = world.channels.get(channel.uid)
    if published is not None:
        return published.topic
    return kafka_names.channel_topic(config.topic_template, channel.resource.namespace, channel.resource.name)


def channel_owner(uid: str, namespace: str, name: str) -> ClaimOwner:
    """A channel as the owner of names."""
    return ClaimOwner(uid, f"KafkaChannel {namespace}/{name}")


def first_claims(channels: Sequence[Object[KafkaChannel]], world: World, config: ControllerConfig) -> Ownership:
    """What is owned before anybody asks: by who is published, by removals under way, and every channel's own hosts."""
    claims = Ownership()
    for record in world.channels.values():
        owner = channel_owner(record.uid, record.namespace, record.name)
        owner = replace(owner, leaving=record.uid in world.removals)
        claims.claim_topics(owner, (record.topic, record.dlq_topic))
    for removal in world.removals.values():
        leaving = ClaimOwner(f"removal {removal.uid}", f"{removal.kind} {removal.label}", leaving=True)
        claims.claim_topics(leaving, removal.topics)
    for channel in channels:
        owner = channel_owner(channel.uid, channel.resource.namespace, channel.resource.name)
        for host in service_hosts(channel.resource, config):
            claims.claim_host(owner, host)
    for record in sorted(world.channels.values(), key=lambda one: (one.namespace, one.name)):
        for host in record.hosts:
            claims.claim_host(channel_owner(record.uid, record.namespace, record.name), host)
    return claims
