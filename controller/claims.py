"""Who owns which topic and which host: no two resources share one by accident, dead letter topics included.

First come, first served, and who is published came first; then by name. Refuses to take anything away from an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.actions import Object, World
from controller.config import ControllerConfig
from knative import names
from knative.resources import KafkaChannel


class Claims:
    """Names that are taken: each maps to the uid and the label of its owner."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[str, str]] = {}
        self._hosts: dict[str, tuple[str, str]] = {}

    def claim_topics(self, uid: str, label: str, topics: Iterable[str]) -> str | None:
        """Take all of them or none. None = taken; else the label of who has one of them already."""
        return _claim(self._topics, uid, label, [names.collision_key(topic) for topic in topics])

    def claim_host(self, uid: str, label: str, host: str) -> str | None:
        """Take a host. None = taken; else the label of who has it already."""
        return _claim(self._hosts, uid, label, [host])


def _claim(taken: dict[str, tuple[str, str]], uid: str, label: str, keys: Sequence[str]) -> str | None:
    for key in keys:
        owner = taken.get(key)
        if owner is not None and owner[0] != uid:
            return owner[1]
    taken.update((key, (uid, label)) for key in keys)
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
    return names.channel_topic(config.topic_template, channel.resource.namespace, channel.resource.name)


def label(kind: str, namespace: str, name: str) -> str:
    """How messages name an object."""
    return f"{kind} {namespace}/{name}"


def first_claims(channels: Sequence[Object[KafkaChannel]], world: World, config: ControllerConfig) -> Claims:
    """What is owned before anybody asks: by who is published, by removals under way, and every channel's own hosts."""
    claims = Claims()
    for record in world.channels.values():
        claims.claim_topics(record.uid, _label_of(record.namespace, record.name), (record.topic, record.dlq_topic))
    for removal in world.removals.values():
        claims.claim_topics(f"removal {removal.uid}", f"{removal.kind} {removal.label}, being removed", removal.topics)
    for channel in channels:
        for host in service_hosts(channel.resource, config):
            claims.claim_host(channel.uid, _label_of(channel.resource.namespace, channel.resource.name), host)
    for record in sorted(world.channels.values(), key=lambda one: (one.namespace, one.name)):
        for host in record.hosts:
            claims.claim_host(record.uid, _label_of(record.namespace, record.name), host)
    return claims


def _label_of(namespace: str, name: str) -> str:
    return label("KafkaChannel", namespace, name)
