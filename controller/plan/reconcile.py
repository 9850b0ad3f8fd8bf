"""Decides the next actions from the objects, the observed Kafka, the contract and the workers' records. Pure.

    scope_of(world)  -> what to observe in Kafka
    reconcile(world) -> what to do next, and every object's status

One call returns only the steps whose preconditions are met. The service carries them out, observes again and calls
again until only statuses are left. So no step depends on the success of another step of the same call, and each rule
can be tested as one row of a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.config import ControllerConfig
from controller.model import Key
from controller.plan.actions import Action, Object, PublishSubscription, Scope, World
from controller.plan.channels import in_order_of_precedence, plan_channel
from controller.plan.deletion import gone, plan_removals, record_creations
from controller.plan.destinations import AddressResolver
from controller.plan.ownership import channel_topic, first_claims
from controller.plan.seek_status import seek_status
from controller.plan.seeks import active, plan_seeks, wish_of, wish_of_request
from controller.plan.specs import (
    ChannelSpec,
    SubscriptionSpec,
    of_broker,
    of_channel,
    of_subscription,
    of_trigger,
)
from controller.plan.statuses import (
    channel_status,
    left_alone_status,
    note_unseen,
    subscription_status,
    unlisted_status,
)
from controller.plan.subscriptions import entries, follow_secrets, plan_subscription
from knative.contract import kafka_names
from knative.contract.seeks import SeekPhase
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.values import Broker, ConfigMap, KafkaChannel, ResetOffset, Subscription, Trigger


@dataclass(frozen=True, slots=True)
class _Sorted:
    channels: list[Object[ChannelSpec]]  #: KafkaChannels and Brokers of our class
    subscriptions: list[Object[SubscriptionSpec]]  #: objects of their own, then entries of channels
    written: frozenset[str]  #: uids of the subscriptions that are objects of their own
    others: list[tuple[Object[Broker] | Object[Trigger], Broker]]  #: Brokers of other classes and their Triggers
    resets: list[Object[ResetOffset]]


def scope_of(world: World, config: ControllerConfig) -> Scope:
    """Returns what must be observed in Kafka before `reconcile` can decide."""
    objects = _sort(world, config)
    topics: set[str] = set()
    topic_of: dict[Key, str] = {}
    for channel in objects.channels:
        topic = channel_topic(channel, world)
        topic_of[channel.resource.key] = topic
        if kafka_names.topic_problem(topic, config.instance) is None:
            topics.update((topic, kafka_names.dlq_topic(topic)))
    starts = [
        (kafka_names.subscription_group(subscription.uid), topic_of[subscription.resource.channel_key])
        for subscription in objects.subscriptions
        if subscription.uid not in world.subscriptions and subscription.resource.channel_key in topic_of
    ]
    groups: set[str] = set()
    for removal in world.removals.values():
        topics.update(removal.topics)
        if removal.group:
            groups.add(removal.group)
    moved, fanouts = [], set()
    for seek in active(world.seeks.values()):
        topics.add(seek.topic)
        groups.add(seek.group)
        if seek.phase is SeekPhase.MOVING:
            moved.append((seek.group, seek.topic))
        if seek.uid in world.subscriptions:
            fanouts.add((kafka_names.fanout_group(config.instance, seek.topic), seek.topic))
    return Scope(frozenset(topics), tuple(starts), frozenset(groups), tuple(moved), tuple(sorted(fanouts)))


def reconcile(world: World, config: ControllerConfig) -> list[Action]:
    """Returns RecordCreations if they change, the next actions in the order to carry them out, then one WriteStatus for
    each object."""
    objects = _sort(world, config)
    claims = first_claims(objects.channels, world, config)
    channels = [
        plan_channel(channel, world, config, claims) for channel in in_order_of_precedence(objects.channels, world)
    ]
    by_key = {plan.object.resource.key: plan for plan in channels}
    retained = frozenset(channel.key for channel in world.channels.values() if channel.uid in world.retained)
    destinations = AddressResolver(world, config)
    subscriptions = [
        plan_subscription(subscription, world, config, by_key, retained - by_key.keys(), destinations)
        for subscription in objects.subscriptions
    ]
    alive = {plan.object.uid for plan in channels} | {plan.object.uid for plan in subscriptions if not plan.remove}
    # Removals first: a name that is being removed must be free before its next owner's topics are created.
    actions = plan_removals(world, frozenset(alive), config)
    planned = [*(plan.creation for plan in channels), *(plan.creation for plan in subscriptions)]
    new = [creation for creation in planned if creation is not None and world.decides(creation.uid)]
    actions[:0] = record_creations(world, new, objects.channels, config)
    for channel in channels:
        actions.extend(channel.actions if world.decides(channel.object.uid) else ())
    for subscription in subscriptions:
        actions.extend(subscription.actions if world.decides(subscription.object.uid) else ())
    actions += follow_secrets(channels, world, alive, _published_by(actions))
    publishing = _published_by(actions)
    wishes = [*map(wish_of, objects.resets), *map(wish_of_request, world.seek_requests)]
    expected = {object_.key for object_ in (*world.objects, *objects.subscriptions)}
    expected |= world.cluster.expected if world.cluster is not None else set()
    seeks = plan_seeks(wishes, world, config, publishing, frozenset(expected))
    actions.extend(seeks.actions)
    statuses = [
        channel_status(plan, subscriptions, world, destinations) for plan in channels if world.decides(plan.object.uid)
    ]
    if world.cluster is None:  # in a cluster, another implementation writes their status
        statuses += [left_alone_status(*other) for other in objects.others]
    for plan in subscriptions:
        if plan.object.uid in objects.written and world.decides(plan.object.uid):
            channel_plan = by_key.get(plan.object.resource.channel_key)
            statuses.append(subscription_status(plan, channel_plan, world, destinations))
    if not world.missing_is_deleted:
        keys = {object_.key for object_ in world.objects}
        unlisted = (record for record in gone(world, frozenset(alive)) if record.uid not in world.asked)
        statuses += [unlisted_status(record) for record in unlisted if record.key not in keys]
    resets = (reset for reset in objects.resets if world.decides(reset.uid))
    statuses += [seek_status(reset, world, seeks.waiting.get(reset.uid, "")) for reset in resets]
    return [*actions, *(note_unseen(status, world) for status in statuses)]


def _published_by(actions: Iterable[Action]) -> frozenset[str]:
    return frozenset(action.subscription.uid for action in actions if isinstance(action, PublishSubscription))


def _sort(world: World, config: ControllerConfig) -> _Sorted:
    objects = sorted(world.objects, key=lambda object_: object_.key)
    config_maps = {
        (object_.resource.namespace, object_.resource.name): object_.resource
        for object_ in objects
        if isinstance(object_.resource, ConfigMap)
    }
    brokers = {
        (object_.resource.namespace, object_.resource.name): object_.resource
        for object_ in objects
        if isinstance(object_.resource, Broker)
    }
    channels: list[Object[ChannelSpec]] = []
    subscriptions: list[Object[SubscriptionSpec]] = []
    others: list[tuple[Object[Broker] | Object[Trigger], Broker]] = []
    resets: list[Object[ResetOffset]] = []
    ignored: dict[tuple[str, str], Broker] = {}  # of other classes; objects are sorted: Triggers come after them
    for object_ in objects:
        identity, published = (object_.uid, object_.generation, object_.spec_hash), world.channels.get(object_.uid)
        match object_.resource:
            case KafkaChannel() as channel:
                channels.append(Object(*identity, of_channel(channel, config)))
            case Broker() as broker if broker.class_ == KAFKA_CLASS or published is not None:
                channels.append(
                    Object(*identity, of_broker(broker, config_maps, config, published, world.secrets, world.cluster))
                )
            case Broker() as broker:
                ignored[broker.namespace, broker.name] = broker
                others.append((Object(*identity, broker), broker))
            case Subscription() as subscription:
                subscriptions.append(Object(*identity, of_subscription(subscription)))
            case Trigger() as trigger if (trigger.namespace, trigger.broker) not in ignored:
                broker_of = brokers.get((trigger.namespace, trigger.broker))
                subscriptions.append(Object(*identity, of_trigger(trigger, broker_of)))
            case Trigger() as trigger:
                others.append((Object(*identity, trigger), ignored[trigger.namespace, trigger.broker]))
            # One that is over but not recorded belongs to another Kafka, or to a status topic that was lost.
            case ResetOffset() as reset if object_.uid in world.seeks or not reset.over:
                resets.append(Object(*identity, reset))
            case _:  # a ConfigMap, an EventType, or a ResetOffset that is over
                pass
    written = frozenset(subscription.uid for subscription in subscriptions)
    seen = set(written)
    for owner in channels:
        for entry in entries(owner):
            if entry.uid not in seen:  # a uid is served once, even if two channels list it
                seen.add(entry.uid)
                subscriptions.append(entry)
    return _Sorted(channels, subscriptions, written, others, resets)
