"""Plans what a Subscription or Trigger needs: resolved Destinations, start offsets, its contract record. Pure.

    channel exists? -> destinations resolved? -> start committed and read back? -> record published -> conditions

If a published subscription is edited into something that cannot be served, the published state is still served. Does
not publish a subscription before its start offsets are read back for every partition: its first events could be lost.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from controller.config import ControllerConfig
from controller.model import Key
from controller.plan.actions import Action, CommitStart, Object, PublishSubscription, World
from controller.plan.channels import ChannelPlan, kafka_unavailable, published_condition
from controller.plan.destinations import AddressResolver, Unresolved
from controller.plan.specs import ChannelSpec, SubscriptionSpec
from knative.contract import kafka_names, records
from knative.contract.leader_state import Removal
from knative.contract.records import SUBSCRIPTION
from knative.resources.conditions import Condition, false, true, unknown


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """The plan for one subscription: its actions and its conditions."""

    object: Object[SubscriptionSpec]
    resolved: Condition
    added: Condition
    record: records.Subscription | None = None  #: as published now; None = not published
    remove: bool = False  #: remove it from the contract, because its channel is gone
    actions: tuple[Action, ...] = ()
    creation: Removal | None = None  #: what its actions create


def entries(channel: Object[ChannelSpec]) -> list[Object[SubscriptionSpec]]:
    """Returns the subscriptions in a channel's `spec.subscribers`, as objects with the identity given there."""
    resource = channel.resource
    return [
        Object(
            entry.uid,
            entry.generation,
            "",
            SubscriptionSpec(
                kind=SUBSCRIPTION,
                namespace=resource.namespace,
                name=entry.name,
                channel=resource.name,
                subscriber=entry.subscriber,
                reply=entry.reply,
                delivery=entry.delivery,
            ),
        )
        for entry in resource.subscribers
    ]


def plan_subscription(
    subscription: Object[SubscriptionSpec],
    world: World,
    config: ControllerConfig,
    channels: Mapping[Key, ChannelPlan],
    retained_channels: frozenset[Key],
    destinations: AddressResolver,
) -> SubscriptionPlan:
    """Plan one subscription."""
    resource = subscription.resource
    key, noun = resource.channel_key, resource.channel_noun
    reason = noun.capitalize()  # of reasons such as ChannelNotFound and BrokerNotFound
    published = world.subscriptions.get(subscription.uid)
    channel = channels.get(key)
    if published is not None and published.channel != resource.channel:
        message = (
            f"{resource.channel_field} cannot be changed from {published.channel!r} to {resource.channel!r}; "
            f"events of {published.channel!r} are still delivered. Delete the {resource.kind} and add it again (in a "
            "directory, "
            "`penstock remove` deletes it), or give it another name"
        )
        old = (key[0], published.namespace, published.channel)
        gone = old not in retained_channels and (
            old not in channels or channels[old].object.uid != published.channel_uid
        )
        return _refused(
            subscription, published, false("ReferencesResolved", f"{reason}Immutable", message), remove=gone
        )
    if channel is None:
        if key in retained_channels:
            message = f"the file of {noun} {resource.channel!r} cannot be read; fix it, see problems.json"
            return _refused(subscription, published, unknown("ReferencesResolved", f"{reason}FileUnreadable", message))
        message = (
            f"there is no {key[0]} {resource.namespace}/{resource.channel}; create it, or correct "
            f"{resource.channel_field}"
        )
        return _refused(subscription, published, false("ReferencesResolved", f"{reason}NotFound", message), remove=True)
    if published is not None and published.channel_uid != channel.object.uid:
        # Another channel under the same name has another topic: the subscription starts again, with a new group.
        message = (
            f"{noun} {resource.channel!r} was deleted and created again; this {resource.kind} is added to it shortly"
        )
        return _refused(
            subscription, published, unknown("ReferencesResolved", f"{reason}Replaced", message), remove=True
        )
    if subscription.uid in world.removals:
        message = f"waiting until the consumer group for its former {noun} is removed"
        return _refused(subscription, published, unknown("ReferencesResolved", "BeingRemoved", message))
    try:
        record = _record(subscription, channel, published, world, config, destinations)
    except Unresolved as problem:
        return _refused(subscription, published, problem.condition("ReferencesResolved"))
    if record is None:
        waits = unknown("AddedToChannel", f"{reason}NotReady", f"waiting until {noun} {resource.channel!r} is ready")
        return SubscriptionPlan(subscription, true("ReferencesResolved"), waits)
    record = _never_older(record, published)
    return _publish(subscription, record, published, world)


def follow_secrets(
    channels: Iterable[ChannelPlan], world: World, alive: Container[str], publishing: Container[str]
) -> list[Action]:
    """Publishes the Secret of its Broker for each Trigger that is served as it was published, because its object cannot
    be served, or be read, as it is now. All Triggers of a Broker have one consumer group: those with another Secret
    would have another member, and each member gets the events of some partitions only. `alive`: uids of what is not
    removed. `publishing`: uids of what is published anyway."""
    secrets = {channel.object.uid: channel.record.secret for channel in channels if channel.record is not None}
    return [
        PublishSubscription(replace(record, secret=secrets[record.channel_uid]))
        for record in world.subscriptions.values()
        if world.decides(record.uid)
        and record.uid not in publishing
        and record.uid not in world.removals
        and (record.uid in alive or record.uid in world.retained)
        and secrets.get(record.channel_uid, record.secret) != record.secret
    ]


def _refused(
    subscription: Object[SubscriptionSpec],
    published: records.Subscription | None,
    why: Condition,
    *,
    remove: bool = False,
) -> SubscriptionPlan:
    if published is None:
        added = unknown("AddedToChannel", why.reason, "waiting for the objects that it refers to")
        return SubscriptionPlan(subscription, why, added)
    message = f"generation {published.generation} is {'being removed' if remove else 'still served'}"
    added = unknown("AddedToChannel", why.reason, message)
    return SubscriptionPlan(subscription, why, added, published, remove)


def _record(
    subscription: Object[SubscriptionSpec],
    channel: ChannelPlan,
    published: records.Subscription | None,
    world: World,
    config: ControllerConfig,
    destinations: AddressResolver,
) -> records.Subscription | None:
    resource = subscription.resource
    namespace, channels = resource.namespace, channel.object.resource.delivery
    subscriber = destinations.resolve(resource.subscriber, namespace, "spec.subscriber", "SubscriberNotResolved")
    reply = destinations.resolve(resource.reply, namespace, "spec.reply", "ReplyNotResolved")
    delivery, origin = destinations.delivery(channels, config.default_delivery, resource)
    assert subscriber is not None, "the reader rejects a resource without subscriber"
    if channel.record is None:
        return None
    return records.Subscription(
        uid=subscription.uid,
        generation=subscription.generation,
        namespace=resource.namespace,
        name=resource.name,
        channel_uid=channel.object.uid,
        channel=resource.channel,
        topic=channel.topic,
        dlq_topic=channel.dlq_topic,
        partitions=channel.record.partitions,
        group=kafka_names.subscription_group(subscription.uid),
        subscriber=subscriber,
        reply=reply,
        delivery=delivery,
        delivery_own=(*origin.own, *resource.own),
        delivery_inherited=(*origin.inherited, *resource.inherited),
        order=resource.order,
        concurrency=resource.concurrency,
        exhausted=resource.exhausted,
        kind=resource.kind,
        spec_hash=subscription.spec_hash,
        filter=resource.filter,
        secret=channel.record.secret,
        # The id of the topic that its offsets belong to, as recorded when they were committed. It must not follow the
        # topic: if the topic is deleted and created again, the committed offsets are meaningless (see `_other_topic`).
        topic_id=(published.topic_id if published is not None else "") or _topic_id(channel.topic, world),
        seek=published.seek if published is not None else "",
        stopped=published is not None and published.stopped,
    )


def _never_older(record: records.Subscription, published: records.Subscription | None) -> records.Subscription:
    """Returns the record with a generation that is not older than the published one. A generation in a channel's
    `spec.subscribers` may be lowered, but readers of the contract ignore records that look older than theirs."""
    if published is None or record.generation >= published.generation:
        return record
    same = replace(record, generation=published.generation)
    return same if same == published else replace(record, generation=published.generation + 1)


def _publish(
    subscription: Object[SubscriptionSpec],
    record: records.Subscription,
    published: records.Subscription | None,
    world: World,
) -> SubscriptionPlan:
    resolved = true("ReferencesResolved")
    if published is None and world.unavailable:
        return SubscriptionPlan(subscription, resolved, kafka_unavailable("AddedToChannel", world.unavailable))
    if published is None and record.group in world.observed.unknown:
        why = false("AddedToChannel", "StartNotCommitted", world.observed.unknown[record.group])
        return SubscriptionPlan(subscription, resolved, why)
    if published is None:
        committed = world.observed.committed.get(record.group, frozenset())
        missing = tuple(p for p in range(record.partitions) if p not in committed)
        if missing:
            commit = CommitStart(record.group, record.topic, missing, subscription.resource.start)
            failure = world.failures.get(commit.target)
            added = (
                false("AddedToChannel", "StartNotCommitted", failure)
                if failure
                else unknown("AddedToChannel", "StartBeingCommitted", "its start offsets are being committed")
            )
            label = f"{record.namespace}/{record.name}"
            creation = Removal(subscription.uid, record.kind, label, record.topic, group=record.group)
            return SubscriptionPlan(subscription, resolved, added, actions=(commit,), creation=creation)
    # Partitions that were added later have no committed offset: the group starts there at the beginning of the log.
    pending = record != published
    added = _other_topic(record, world) or published_condition(pending, subscription.uid, world, "AddedToChannel")
    actions = (PublishSubscription(record),) if pending else ()
    return SubscriptionPlan(subscription, resolved, added, published, actions=actions)


def _topic_id(topic: str, world: World) -> str:
    seen = world.observed.topics.get(topic)
    return "" if seen is None else seen.id


def _other_topic(record: records.Subscription, world: World) -> Condition | None:
    """Returns the problem if the topic is not the one that the subscription's offsets belong to, else None."""
    if _topic_id(record.topic, world) in ("", record.topic_id):
        return None
    message = (
        f"topic {record.topic} was deleted and created again, so the committed offsets are no longer valid; delete the "
        f"{record.kind} and add it again (in a directory, `penstock remove` deletes it), with penstock.dev/start: "
        "earliest to get all events that the topic has now"
    )
    return false("AddedToChannel", "TopicReplaced", message)
