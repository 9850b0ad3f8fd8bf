"""Plans the removal of resources: first the contract record, then the group, then the topics. Pure.

    recorded -> retracted -> group deleted once it is empty -> topics deleted -> forgotten
           `-> cancelled, if the resource is there again before it is retracted

In a cluster, an object that was deleted is removed. In a directory, a resource that no file has any more is *unlisted*:
its record says so and stays, and so do its topics, its group and its uid. Only a person's request removes it.

The removal is recorded before the retraction, so that a crash in between does not leave unknown topics and groups. The
next leader continues it, and may see another state of the files: only the retraction is final. Of a resource that goes
before it is in the contract, the creation that was recorded becomes the removal. Does not delete a topic that another
channel uses, or a retained resource whose file cannot be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from controller.config import ControllerConfig
from controller.plan.actions import (
    Action,
    CancelRemoval,
    DeleteGroup,
    DeleteTopic,
    Forget,
    GroupState,
    Object,
    PublishChannel,
    PublishSubscription,
    RecordCreations,
    Remember,
    Retract,
    World,
)
from controller.plan.specs import ChannelSpec
from knative.contract.leader_state import Removal
from knative.contract.records import Channel, Subscription


def plan_removals(world: World, alive: frozenset[str], config: ControllerConfig) -> list[Action]:
    """Returns the next steps of all removals. `alive`: uids of the objects that must be served."""
    actions: list[Action] = []
    for record in gone(world, alive):
        if world.missing_is_deleted or record.uid in world.asked:
            actions.append(Remember(_removal(record, world.now)))
        elif not record.unlisted:
            actions.append(_unlist(record))
    keep = alive | world.retained | world.removals.keys()
    lost = (
        removal for removal in _unpublished(world).values() if removal.uid not in keep and world.decides(removal.uid)
    )
    actions += [Remember(replace(creation, since=world.now)) for creation in lost]
    used = {
        topic
        for record in world.channels.values()
        if record.uid in alive or record.uid in world.retained
        for topic in (record.topic, record.dlq_topic)
    }
    for removal in filter(lambda removal: world.decides(removal.uid), world.removals.values()):
        actions.extend(_next_step(removal, world, alive, used, config))
    return actions


def gone(world: World, alive: frozenset[str]) -> Iterator[Channel | Subscription]:
    """Returns the published resources that nothing serves any more, and whose removal has not begun."""
    keep = alive | world.retained | world.removals.keys()
    records: list[Channel | Subscription] = [*world.subscriptions.values(), *world.channels.values()]
    return (record for record in records if record.uid not in keep and world.decides(record.uid))


def _unlist(record: Channel | Subscription) -> Action:
    if isinstance(record, Channel):
        return PublishChannel(replace(record, unlisted=True))
    return PublishSubscription(replace(record, unlisted=True))


def removable(asked: Collection[str], published: Iterable[Channel | Subscription]) -> frozenset[str]:
    """Returns which resources that a person wants to remove may be: a channel only with all its subscriptions."""
    read = {record.channel_uid for record in published if isinstance(record, Subscription) and record.uid not in asked}
    return frozenset(asked) - read


def record_creations(
    world: World, new: Iterable[Removal], channels: Iterable[Object[ChannelSpec]], config: ControllerConfig
) -> list[Action]:
    """Record what is created for resources that are not published yet, as long as they are not. `new`: what the next
    actions create. `channels`: what is created for them may be said to stay since."""
    creations = dict(_unpublished(world))
    # Whether they were deleted or the API server has lost them, nobody knows: the topics stay, and a person decides.
    given_up = tuple(
        creation
        for creation in creations.values()
        if world.now - world.vanished.get(creation.uid, world.now) >= config.removal_limit_s
    )
    for removal in given_up:
        del creations[removal.uid]
    for channel in channels:
        spec, created = channel.resource, creations.get(channel.uid)
        if created is None or not (spec.keep_topic or spec.external):
            continue
        left = () if spec.keep_topic else tuple(topic for topic in created.topics if topic != spec.topic)
        creations[channel.uid] = replace(created, topics=left)
        if not left:
            del creations[channel.uid]
    for removal in new:
        before = creations.get(removal.uid, removal)
        topics = tuple(dict.fromkeys((*before.topics, *removal.topics)))
        creations[removal.uid] = replace(removal, topics=topics, since=before.since or world.now)
    return [] if creations == world.creations else [RecordCreations(tuple(creations.values()), given_up)]


def _unpublished(world: World) -> Mapping[str, Removal]:
    """Returns the creations that are still needed."""
    uids = world.channels.keys() | world.subscriptions.keys() | world.removals.keys()
    return {uid: removal for uid, removal in world.creations.items() if uid not in uids}


def _removal(record: Channel | Subscription, now: float) -> Removal:
    label = f"{record.namespace}/{record.name}"
    if isinstance(record, Channel):
        return Removal(record.uid, record.kind, label, record.topic, topics=record.owned_topics, since=now)
    return Removal(record.uid, record.kind, label, record.topic, group=record.group, since=now)


def _next_step(
    removal: Removal, world: World, alive: frozenset[str], used: set[str], config: ControllerConfig
) -> Iterable[Action]:
    # Workers stop consuming when the contract record is gone; only then can the group become empty.
    if removal.uid in world.channels or removal.uid in world.subscriptions:
        if removal.uid in alive:
            return [CancelRemoval(removal.uid)]
        # An earlier leader recorded the removal, and this one does not know yet whether the resource is there again.
        return [] if removal.uid in world.retained else [Retract(removal.uid)]
    # The group has no members. A last commit of a worker that still serves it would create it again.
    if world.now - removal.since < config.group_wait_s and _is_served(removal, world):
        return []
    state = world.observed.groups.get(removal.group, GroupState.ABSENT)
    topics = [topic for topic in removal.topics if topic in world.observed.topics and topic not in used]
    if not topics and state is GroupState.ABSENT:
        return [Forget(removal.uid)]
    if world.now - removal.since > config.removal_limit_s:
        left = [f"group {removal.group}"] * (state is not GroupState.ABSENT) + [f"topic {topic}" for topic in topics]
        return [Forget(removal.uid, f"the removal was given up; delete these by hand: {', '.join(left)}")]
    if state is GroupState.EMPTY:
        return [DeleteGroup(removal.group)]
    if topics and not _readers(removal, world, config):
        return [DeleteTopic(topic) for topic in topics]
    return []


def _is_served(removal: Removal, world: World) -> bool:
    return any(removal.uid in worker.subscriptions for worker in world.workers.values())


def _readers(removal: Removal, world: World, config: ControllerConfig) -> bool:
    """Returns whether a subscription may still read the topic. Kafka allows deleting it, but the readers log errors."""
    if any(record.topic == removal.topic for record in world.subscriptions.values()):
        return True
    return world.now - removal.since < config.group_wait_s and any(
        other.topic == removal.topic and other.group and _is_served(other, world) for other in world.removals.values()
    )
