"""Plans what a KafkaChannel or a Broker needs: its two topics, its hosts and its contract record. Pure.

    names free? -> topics exist? -> partitions and configs as specified? -> record published? -> conditions

An existing topic is used as it is: its real number of partitions is published, and differences are reported. Does not
lower partitions, rename a published topic, or publish a channel before both its topics exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.config import KIB, ControllerConfig
from controller.plan.actions import (
    Action,
    AddPartitions,
    AlterTopicConfig,
    Configs,
    CreateTopic,
    MakeRoom,
    Object,
    PublishChannel,
    World,
    contract_target,
    room_target,
)
from controller.plan.ownership import Ownership, channel_owner, channel_topic, service_hosts
from controller.plan.specs import ChannelSpec
from knative.contract import kafka_names, records
from knative.contract.leader_state import Removal
from knative.hosts import owner_by_service, service_of_channel
from knative.resources.conditions import Condition, ConditionStatus, false, true, unknown
from knative.resources.fields import HOSTS

#: The configs that every topic of Penstock has.
MANAGED_CONFIGS = frozenset({"cleanup.policy", "max.message.bytes", "retention.ms"})
ROOM = "max.message.bytes"
SERVICE_NOT_WRITTEN = "ServiceNotWritten"  #: reason of a True Addressable
TOPIC_DIFFERS = "TopicDiffers"  #: reason of a True TopicReady if the topic differs from the spec in some way


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """The plan for one channel: its actions and its conditions."""

    object: Object[ChannelSpec]
    topic: str
    dlq_topic: str
    record: records.Channel | None  #: as served now, or after the actions; None = not served
    conditions: tuple[Condition, ...]  #: TopicReady, ContractPublished, Addressable
    actions: tuple[Action, ...] = ()
    creation: Removal | None = None  #: what its actions create


@dataclass(frozen=True, slots=True)
class _Topics:
    condition: Condition
    partitions: int = 0  #: the number to publish; 0 = do not publish yet
    actions: tuple[Action, ...] = ()


def plan_channel(
    channel: Object[ChannelSpec], world: World, config: ControllerConfig, claims: Ownership
) -> ChannelPlan:
    """Plan one channel. Call it in order of precedence: the first channel gets a contested name."""
    topic = channel_topic(channel, world)
    dlq_topic = kafka_names.dlq_topic(topic)
    published = world.channels.get(channel.uid)
    if published is not None:
        dlq_topic = published.dlq_topic
    topics = _plan_topics(channel, topic, dlq_topic, world, config, claims)
    hosts, addressable = _plan_hosts(channel, world, config, claims)
    if not topics.partitions:
        # The topics are not ready. A published channel is still served with its old record.
        unpublished = unknown("ContractPublished", topics.condition.reason, "waiting until the topic is ready")
        contract_published = unpublished if published is None else _older(channel, published)
        if published is None:
            addressable = unknown("Addressable", topics.condition.reason, "waiting until the topic is ready")
        conditions = (topics.condition, contract_published, addressable)
        creation = _creation(channel, topic, topics.actions) if published is None else None
        return ChannelPlan(channel, topic, dlq_topic, published, conditions, topics.actions, creation)
    record = records.Channel(
        uid=channel.uid,
        generation=channel.generation,
        namespace=channel.resource.namespace,
        name=channel.resource.name,
        topic=topic,
        dlq_topic=dlq_topic,
        partitions=topics.partitions,
        hosts=hosts,
        spec_hash=channel.spec_hash,
        kind=channel.resource.kind,
        keep_topic=channel.resource.keep_topic,
        config_map=channel.resource.config_map,
        external=channel.resource.external,
        secret=channel.resource.secret,
        config_keys=tuple(sorted({*(key for key, _ in channel.resource.topic_configs), *_to_reset(channel, world)})),
    )
    publish = () if record == published else (PublishChannel(record),)
    if published is None and addressable.status is ConditionStatus.TRUE:
        addressable = unknown("Addressable", "BeingPublished", "the address is being published")
    conditions = (topics.condition, published_condition(bool(publish), channel.uid, world), addressable)
    return ChannelPlan(channel, topic, dlq_topic, record, conditions, (*topics.actions, *publish))


def _creation(channel: Object[ChannelSpec], topic: str, actions: Iterable[Action]) -> Removal | None:
    resource = channel.resource
    new = tuple(action.topic for action in actions if isinstance(action, CreateTopic))
    if resource.keep_topic or not new:
        return None
    return Removal(channel.uid, resource.kind, f"{resource.namespace}/{resource.name}", topic, topics=new)


def published_condition(pending: bool, uid: str, world: World, type_: str = "ContractPublished") -> Condition:
    """Returns whether the contract record is published as planned."""
    if not pending:
        return true(type_)
    if world.unavailable:
        return kafka_unavailable(type_, world.unavailable)
    failure = world.failures.get(contract_target(uid))
    if failure:
        return false(type_, "ContractNotWritten", failure)
    return unknown(type_, "BeingPublished", "the contract record is being written")


def kafka_unavailable(type_: str, why: str) -> Condition:
    """Returns the condition of what waits for Kafka, which does not answer."""
    message = f"the controller cannot reach Kafka ({why}), and changes and removes nothing until it can"
    return unknown(type_, "KafkaUnavailable", message)


def _older(channel: Object[ChannelSpec], published: records.Channel) -> Condition:
    if published.generation == channel.generation:
        return true("ContractPublished")
    message = (
        f"generation {published.generation} is served until the topic is ready for generation {channel.generation}"
    )
    return unknown("ContractPublished", "OlderGenerationServed", message)


def topic_configs(channel: ChannelSpec, config: ControllerConfig) -> Configs:
    """Returns the managed configs of a channel's topic."""
    # Room for the largest head that ingress accepts (128 KiB), and again for the attribute that is the key, which may
    # be nearly all of it.
    return _configs(config.event_bytes_max + 256 * KIB, channel.retention_s, channel.topic_configs)


def dlq_configs(config: ControllerConfig) -> Configs:
    """Returns the managed configs of a DLQ topic: a dead letter is larger than its event, and is kept longer."""
    # As much as the producer allows: a dead letter that one of the two refuses cannot be stored.
    return _configs(config.event_bytes_max + 512 * KIB, config.dlq_retention_s)


def _configs(message_bytes_max: int, retention_s: float, more: Configs = ()) -> Configs:
    ours = {
        "cleanup.policy": "delete",
        ROOM: str(message_bytes_max),
        "retention.ms": str(round(retention_s * 1000)),
    }
    return tuple({**ours, **dict(more)}.items())


def _plan_topics(
    channel: Object[ChannelSpec], topic: str, dlq_topic: str, world: World, config: ControllerConfig, claims: Ownership
) -> _Topics:
    resource = channel.resource
    if resource.problem is not None:
        return _Topics(resource.problem)
    wrong = kafka_names.topic_problem(topic, config.instance)
    if wrong:
        return _Topics(false("TopicReady", *wrong))
    me = channel_owner(channel.uid, *resource.key)
    owner = claims.claim_topics(me, (topic, dlq_topic))
    if owner is not None and owner.leaving:
        message = (
            f"topic {topic!r} or {dlq_topic!r} of a former {owner.label} is being removed; it is created again "
            "after that"
        )
        return _Topics(unknown("TopicReady", "TopicBeingRemoved", message))
    if owner is not None:
        message = (
            f"topic {topic!r} or {dlq_topic!r} belongs to {owner.label}; give one of the two resources another name"
        )
        return _Topics(false("TopicReady", "TopicConflict", message))
    if world.unavailable:
        return _Topics(kafka_unavailable("TopicReady", world.unavailable))
    seen = world.observed.topics.get(topic)
    if resource.external and seen is None:
        message = (
            f"there is no topic {topic!r}; create it, because Penstock does not create a topic that an annotation names"
        )
        return _Topics(false("TopicReady", "TopicNotFound", message))
    unasked = () if ROOM in dict(resource.topic_configs) else (ROOM,)
    wish = CreateTopic(topic, resource.partitions, resource.replication, topic_configs(resource, config), unasked)
    actions, under_way = ([], None) if resource.external else _align(wish, world, _to_reset(channel, world))
    notes = [] if resource.external else _differences(wish, world, resource)
    if resource.note:
        notes.append(resource.note)
    partitions = resource.partitions
    if seen is not None:
        partitions = seen.partitions if resource.external else max(partitions, seen.partitions)
    dlq_wish = CreateTopic(dlq_topic, partitions, resource.replication, dlq_configs(config), (ROOM,))
    notes += [note for topic in (wish, dlq_wish) if (note := _no_room(topic, world))]
    dlq_actions, dlq_under_way = _align(dlq_wish, world)
    under_way = under_way or dlq_under_way
    failure = world.failures.get(wish.target) or world.failures.get(dlq_wish.target)
    if failure:
        condition = false("TopicReady", "KafkaRefused", failure)
    elif under_way:
        condition = unknown("TopicReady", under_way, f"waiting until Kafka has created or changed the topic {topic!r}")
    else:
        condition = true("TopicReady", TOPIC_DIFFERS if notes else "", "; ".join(notes))
    both_exist = seen is not None and dlq_topic in world.observed.topics and not under_way
    return _Topics(condition, seen.partitions if both_exist and seen else 0, (*actions, *dlq_actions))


def _to_reset(channel: Object[ChannelSpec], world: World) -> tuple[str, ...]:
    """Returns configs that the ConfigMap set and sets no longer. The record names them until they are reset."""
    resource, published = channel.resource, world.channels.get(channel.uid)
    seen = world.observed.topics.get(channel_topic(channel, world))
    if published is None or seen is None or resource.external:
        return ()
    keys = {key for key, _ in resource.topic_configs} | MANAGED_CONFIGS
    return tuple(key for key in published.config_keys if key not in keys and key in seen.configs)


def _align(wish: CreateTopic, world: World, reset: tuple[str, ...] = ()) -> tuple[list[Action], str | None]:
    """Returns (actions, reason why publishing must wait or None)."""
    seen = world.observed.topics.get(wish.topic)
    if seen is None:
        return [wish], "TopicBeingCreated"
    actions: list[Action] = []
    differ = tuple(pair for pair in wish.configs if not _same(pair[1], seen.configs.get(pair[0])))
    changed = tuple(pair for pair in differ if pair[0] not in wish.unasked)
    if changed or reset:
        actions.append(AlterTopicConfig(wish.topic, changed, reset))
    if room := tuple(pair for pair in differ if pair[0] in wish.unasked):
        actions.append(MakeRoom(wish.topic, room))
    if seen.partitions < wish.partitions:
        actions.append(AddPartitions(wish.topic, wish.partitions))
        return actions, "PartitionsBeingRaised"
    return actions, None


def _differences(wish: CreateTopic, world: World, resource: ChannelSpec) -> list[str]:
    """Returns how the topic differs from the spec, and stays so."""
    seen = world.observed.topics.get(wish.topic)
    notes: list[str] = []
    if seen is not None and seen.partitions > wish.partitions:
        notes.append(
            f"the topic has {seen.partitions} partitions, but {resource.partitions_field} is "
            f"{wish.partitions}, and Kafka cannot remove partitions; write {seen.partitions}, or create another "
            f"{resource.kind}"
        )
    if seen is not None and seen.replication != wish.replication:
        notes.append(
            f"the topic has replication factor {seen.replication}, but {resource.replication_field} is "
            f"{wish.replication}, and "
            f"Penstock does not change it; write {seen.replication}, or reassign the replicas with "
            "kafka-reassign-partitions.sh"
        )
    return notes


def _no_room(wish: CreateTopic, world: World) -> str | None:
    """Returns the problem that a topic has too little room for large events, because Kafka refuses it, or None."""
    refused, seen = world.failures.get(room_target(wish.topic)), world.observed.topics.get(wish.topic)
    if not refused or seen is None:
        return None
    return (
        f"topic {wish.topic!r} has {ROOM} {seen.configs.get(ROOM)}, so Kafka refuses larger events ({refused}); "
        "lower PENSTOCK_EVENT_BYTES_MAX, or ask the administrator of Kafka to allow a larger value"
    )


def _same(wish: str, seen: str | None) -> bool:
    """Returns whether Kafka understood `wish` as `seen`. It shows values in its own spelling: `0.50` as `0.5`."""
    if seen is None or wish == seen:
        return wish == seen
    try:
        return float(wish) == float(seen)
    except ValueError:
        return wish.replace(" ", "").lower() == seen.replace(" ", "").lower()


def _plan_hosts(
    channel: Object[ChannelSpec], world: World, config: ControllerConfig, claims: Ownership
) -> tuple[tuple[str, ...], Condition]:
    resource = channel.resource
    me = channel_owner(channel.uid, *resource.key)
    hosts: list[str] = []
    taken: list[str] = []
    for host in dict.fromkeys((*service_hosts(resource, config), *resource.hosts)):
        problem = claims.host_problem(me, host)
        # In a cluster a namespace may be another team's, and its Services lead where that team wants. Files that lie in
        # one directory have the same author.
        if world.cluster is not None and (other := owner_by_service(host, resource.namespace)) is not None:
            problem = f"is the host name of a Service in the namespace {other!r}, and belongs to that namespace"
        if problem is None:
            hosts.append(host)
        else:
            taken.append(f"host {host!r} {problem}")
    if taken:
        message = (
            f"{'; '.join(taken)}. Remove the host from one of the annotations {HOSTS}. The other addresses are served"
        )
        return tuple(hosts), false("Addressable", "HostTaken", message)
    if not hosts and not config.ingress_url:
        message = (
            "it has no address that senders can use; set PENSTOCK_INGRESS_URL, or add the annotation penstock.dev/hosts"
        )
        return (), false("Addressable", "NoAddress", message)
    why = world.cluster.services.get(channel.uid) if world.cluster is not None else None
    if why is not None:
        service = f"{resource.namespace}/{service_of_channel(resource.name)}"
        message = f"the Service {service} cannot be written, so the host name does not resolve: {why}"
        return tuple(hosts), true("Addressable", SERVICE_NOT_WRITTEN, message)
    return tuple(hosts), true("Addressable")


def in_order_of_precedence(channels: list[Object[ChannelSpec]], world: World) -> list[Object[ChannelSpec]]:
    """Returns published channels first, then by name: a published channel keeps its names."""
    return sorted(channels, key=lambda channel: (channel.uid not in world.channels, channel.key))
