"""Makes the status of each object from its plan: the conditions and the other fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from controller.plan.actions import Object, World, WriteStatus
from controller.plan.channels import ChannelPlan
from controller.plan.destinations import AddressResolver, Unresolved
from controller.plan.subscriptions import SubscriptionPlan
from knative.contract.records import CHANNEL, TRIGGER, Channel, SubscriberStatus, Subscription
from knative.delivery.policy import Addressable, DeliverySpec
from knative.resources.brokers import BROKER_CLASS, DEPENDENCY, KAFKA_CLASS, NOT_OUR_CLASS
from knative.resources.conditions import Condition, ConditionStatus, false, ready, true, unknown, with_note
from knative.resources.values import Broker, Subscriber, Trigger
from tables.resource_status import SECRET_READY
from tables.status_table import FRESH_S, SUBSCRIBER_NOT_IN_FILES, serving, subscriber_status

TOPIC_NOTE = "penstock.dev/topic"
DLQ_TOPIC_NOTE = "penstock.dev/dead-letter-topic"
GHOSTS = "GhostSubscribers"  #: reason of a True SubscribersReady
WATCH_FORBIDDEN = "WatchForbidden"  #: reason of a True Ready
PATH_NOTE = "penstock.dev/path"
GROUP_NOTE = "penstock.dev/group"

#: Why a Trigger's references are not resolved if it is not for its broker.
_NOT_RESOLVED = frozenset({"SubscriberNotResolved", "DeadLetterSinkNotResolved"})


def channel_status(
    plan: ChannelPlan, subscriptions: Sequence[SubscriptionPlan], world: World, destinations: AddressResolver
) -> WriteStatus:
    """Returns the status. `Ready` of a KafkaChannel = TopicReady, ContractPublished, Addressable, SubscribersReady,
    DeadLetterSinkResolved; of a Broker without SubscribersReady, and with KafkaSecretReady if it has its own Secret."""
    channel = plan.object
    sink, sink_resolved = _dead_letter_sink(plan, destinations)
    parts = (*plan.conditions, *_kafka_secret(plan, world), sink_resolved)
    body = _channel_body(plan, sink, world, destinations)
    topics, _, addressable = plan.conditions
    notes = [topics]
    if channel.resource.kind == CHANNEL:
        rows, served_by = _subscribers(plan, subscriptions, world)
        parts = (*plan.conditions, served_by, sink_resolved)
        body["subscribers"] = rows
        notes += [served_by, addressable]
    return WriteStatus(*channel.key, channel.uid, channel.generation, (with_note(ready(parts), notes), *parts), body)


def note_unseen(status: WriteStatus, world: World) -> WriteStatus:
    """Returns the status; if it is ready, with a note if the API server does not let its changes be seen."""
    if world.cluster is None or status.conditions[0].status is not ConditionStatus.TRUE:
        return status
    why = world.cluster.why_refused("", status.kind, status.namespace)
    if not why:
        return status
    note = true(
        "Ready", WATCH_FORBIDDEN, f"changes of this object cannot be read, so its last known version is served: {why}"
    )
    return replace(status, conditions=(note, *status.conditions[1:]))


def _kafka_secret(plan: ChannelPlan, world: World) -> Iterable[Condition]:
    """Yields whether this process and the workers can use the Secret of a Broker; nothing for one without."""
    resource = plan.object.resource
    if resource.secret_problem is not None:
        yield resource.secret_problem
    elif resource.secret:
        reasons = {
            f"{worker.worker}: {problem.message}": problem.reason
            for worker in world.workers.values()
            if (world.unavailable or world.now - worker.time <= FRESH_S)  # without Kafka, what they said last
            and (problem := worker.secrets.get(resource.secret)) is not None
        }
        if reasons:
            yield false(SECRET_READY, max(reasons.values()), "; ".join(sorted(reasons)))
        else:
            yield true(SECRET_READY)


def left_alone_status(subject: Object[Broker] | Object[Trigger], broker: Broker) -> WriteStatus:
    """Returns the status of a Broker that another implementation serves, or of its Trigger: nothing is done with it."""
    who = "it" if isinstance(subject.resource, Broker) else f"its broker {broker.name!r}"
    why = (
        f"has the class {broker.class_!r}, not {KAFKA_CLASS!r}"
        if broker.class_
        else f"has no annotation {BROKER_CLASS}"
    )
    left = unknown("Ready", NOT_OUR_CLASS, f"{who} {why}, so Penstock does not serve it")
    return WriteStatus(*subject.key, subject.uid, subject.generation, (left,), {})


def unlisted_status(record: Channel | Subscription) -> WriteStatus:
    """Returns the status of a resource that no file has any more."""
    name = record.title
    keeps = "topics and events" if isinstance(record, Channel) else "consumer group and offsets"
    message = (
        f"no file contains this resource, so it is not served, but keeps its {keeps}. Add its file again to continue "
        "where it stopped, or "
        f"delete it: `penstock remove {name}`"
    )
    conditions = (false("Ready", SUBSCRIBER_NOT_IN_FILES, message),)
    return WriteStatus(*record.key, record.uid, record.generation, conditions, {})


def _subscribers(
    plan: ChannelPlan, subscriptions: Sequence[SubscriptionPlan], world: World
) -> tuple[list[dict[str, Any]], Condition]:
    channel = plan.object
    mine = sorted(
        (
            sub.record
            for sub in subscriptions
            if sub.record is not None and sub.record.channel_uid == channel.uid and not sub.remove
        ),
        key=lambda record: (record.name, record.uid),
    )
    rows = [subscriber_status(record, world.workers.values(), world.now) for record in mine]
    labels = [record.label for record in mine]
    for sub in _waiting_entries(plan, subscriptions):
        rows.append(_not_added(sub))
        labels.append(f"{sub.object.resource.namespace}/{sub.object.resource.name}")
    entries = [
        {"uid": row.uid, "observedGeneration": row.observed_generation, "ready": row.ready}
        | ({"message": row.message} if row.message else {})
        for row in rows
    ]
    return entries, _with_ghosts(_subscribers_ready(labels, rows), channel.resource.ghosts)


def _waiting_entries(plan: ChannelPlan, subscriptions: Sequence[SubscriptionPlan]) -> list[SubscriptionPlan]:
    """Returns the entries of the channel that are not published yet. They have no status of their own to say why."""
    uids = {entry.uid for entry in plan.object.resource.subscribers}
    if not uids:
        return []
    key = plan.object.resource.key
    return [
        sub
        for sub in subscriptions
        if sub.record is None and sub.object.uid in uids and sub.object.resource.channel_key == key
    ]


def _not_added(sub: SubscriptionPlan) -> SubscriberStatus:
    why = sub.added if sub.resolved.status is ConditionStatus.TRUE else sub.resolved
    return SubscriberStatus(sub.object.uid, sub.object.generation, why.status, why.message, why.reason)


def _with_ghosts(condition: Condition, ghosts: Sequence[Subscriber]) -> Condition:
    """A condition that is True names the entries that are not served, so that people can remove them."""
    if not ghosts or condition.status is not ConditionStatus.TRUE:
        return condition
    names = ", ".join(f"{ghost.name} ({ghost.uid})" for ghost in ghosts)
    message = f"spec.subscribers has entries whose Subscription does not exist, and which are not served: {names}"
    return replace(condition, reason=GHOSTS, message=message)


def _channel_body(
    plan: ChannelPlan, sink: Addressable | None, world: World, destinations: AddressResolver
) -> dict[str, Any]:
    body: dict[str, Any] = {"annotations": {TOPIC_NOTE: plan.topic, DLQ_TOPIC_NOTE: plan.dlq_topic}}
    served = world.channels.get(plan.object.uid)
    urls = destinations.addresses(served) if served is not None else ()
    if served is not None and urls:
        body["addresses"] = [{"name": urlsplit(url).scheme, "url": url} for url in urls]
        body["address"] = body["addresses"][0]
        body["annotations"][PATH_NOTE] = served.path
    if sink is not None:
        # Knative's core makes the dead letter sink of Subscriptions from this one.
        whole = plan.object.resource.kind == CHANNEL and world.cluster is not None and world.cluster.core
        body["deadLetterSinkUri"] = sink.uri if whole else sink.shown_uri
    return body


def subscription_status(
    plan: SubscriptionPlan, channel: ChannelPlan | None, world: World, destinations: AddressResolver
) -> WriteStatus:
    """Returns the status. `Ready` = ReferencesResolved, AddedToChannel, ChannelReady; see `_trigger_status` for
    Triggers."""
    if plan.object.resource.kind == TRIGGER:
        return _trigger_status(plan, channel, world, destinations)
    subscription = plan.object
    parts = (plan.resolved, plan.added, _channel_ready(plan, channel, world))
    body: dict[str, Any] = {}
    if plan.record is not None and plan.resolved.status is ConditionStatus.TRUE:
        reply = plan.record.reply.shown_uri if plan.record.reply else ""
        body["physicalSubscription"] = {**_uris(plan.record), "replyUri": reply}
        body["annotations"] = {GROUP_NOTE: plan.record.group}
    return WriteStatus(
        *subscription.key,
        subscription.uid,
        subscription.generation,
        (with_note(ready(parts), parts[-1:]), *parts),
        body,
    )


def _uris(record: Subscription) -> dict[str, Any]:
    sink = record.delivery.dead_letter_sink
    return {"subscriberUri": record.subscriber.shown_uri, "deadLetterSinkUri": sink.shown_uri if sink else ""}


def _trigger_status(
    plan: SubscriptionPlan, broker: ChannelPlan | None, world: World, destinations: AddressResolver
) -> WriteStatus:
    """Returns the status. `Ready` = BrokerReady, SubscriberResolved, DeadLetterSinkResolved, Subscribed,
    DependencyReady."""
    subscription = plan.object
    subscribed = replace(plan.added, type="Subscribed")
    if subscribed.status is ConditionStatus.TRUE and plan.record is not None:
        row = subscriber_status(plan.record, world.workers.values(), world.now)
        subscribed = serving("Subscribed", row)
    resolved = _trigger_resolved(plan, broker, destinations)
    parts = (_broker_ready(plan, broker), *resolved, subscribed, _dependency_ready(subscription.resource.dependency))
    body: dict[str, Any] = {}
    if plan.record is not None and plan.resolved.status is ConditionStatus.TRUE:
        body = {**_uris(plan.record), "annotations": {GROUP_NOTE: plan.record.group}}
    return WriteStatus(
        *subscription.key,
        subscription.uid,
        subscription.generation,
        (with_note(ready(parts), (subscribed,)), *parts),
        body,
    )


def _broker_ready(plan: SubscriptionPlan, broker: ChannelPlan | None) -> Condition:
    of_others = plan.resolved.status is ConditionStatus.TRUE or plan.resolved.reason in _NOT_RESOLVED
    if broker is not None and of_others:
        return replace(ready(broker.conditions), type="BrokerReady")
    return replace(plan.resolved, type="BrokerReady")


def _trigger_resolved(
    plan: SubscriptionPlan, broker: ChannelPlan | None, destinations: AddressResolver
) -> tuple[Condition, Condition]:
    """Returns SubscriberResolved and DeadLetterSinkResolved, each for itself: the plan ends at the first problem."""
    if plan.resolved.status is ConditionStatus.TRUE:
        return true("SubscriberResolved"), true("DeadLetterSinkResolved")
    resource = plan.object.resource
    brokers = broker.object.resource.delivery if broker is not None else None
    subscriber, sink = true("SubscriberResolved"), true("DeadLetterSinkResolved")
    try:
        destinations.resolve(resource.subscriber, resource.namespace, "spec.subscriber", "SubscriberNotResolved")
    except Unresolved as problem:
        subscriber = problem.condition(subscriber.type)
    try:
        destinations.delivery(brokers, DeliverySpec(), resource)
    except Unresolved as problem:
        sink = problem.condition(sink.type)
    return subscriber, sink


def _dependency_ready(dependency: str) -> Condition:
    """Returns Unknown if the Trigger names a dependency, because Penstock does not check it. Events are delivered
    anyway, as in Knative."""
    if not dependency:
        return true("DependencyReady")
    message = (
        f"Penstock does not check whether {dependency} is ready, and delivers events in any case. "
        f"Remove the annotation {DEPENDENCY} if this Trigger does not depend on it"
    )
    return unknown("DependencyReady", "DependencyNotChecked", message)


def _dead_letter_sink(plan: ChannelPlan, destinations: AddressResolver) -> tuple[Addressable | None, Condition]:
    resource = plan.object.resource
    try:
        sink = destinations.sink(resource.delivery, resource.namespace, "spec.delivery.deadLetterSink")
    except Unresolved as problem:
        return None, problem.condition("DeadLetterSinkResolved")
    if sink is None:
        return None, true("DeadLetterSinkResolved", "DeadLetterTopicUsed", f"dead letters go to {plan.dlq_topic!r}")
    return sink, true("DeadLetterSinkResolved")


def _subscribers_ready(labels: Sequence[str], rows: Sequence[SubscriberStatus]) -> Condition:
    parts = [serving("SubscribersReady", row, f"Subscription {label}") for label, row in zip(labels, rows, strict=True)]
    return replace(with_note(ready(parts), parts), type="SubscribersReady")


def _channel_ready(plan: SubscriptionPlan, channel: ChannelPlan | None, world: World) -> Condition:
    if channel is not None and not plan.remove:
        for condition in channel.conditions[:2]:
            if condition.status is not ConditionStatus.TRUE:
                return Condition("ChannelReady", condition.status, condition.reason, condition.message)
    if plan.record is None or plan.remove:
        return unknown("ChannelReady", "NotAddedToChannel", "waiting until the Subscription is added to its channel")
    row = subscriber_status(plan.record, world.workers.values(), world.now)
    return serving("ChannelReady", row)
