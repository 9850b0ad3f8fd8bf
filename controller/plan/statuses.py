"""Makes the status of each object from its plan: the conditions and the other fields. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from controller.plan.actions import World, WriteStatus
from controller.plan.channels import ChannelPlan
from controller.plan.destinations import AddressResolver, Unresolved
from controller.plan.subscriptions import SubscriptionPlan
from knative.contract.records import SubscriberStatus, Subscription
from knative.delivery.policy import Addressable
from knative.resources.conditions import Condition, ConditionStatus, ready, true, unknown, with_note
from tables.status_table import serving, subscriber_status

TOPIC_NOTE = "penstock.dev/topic"
DLQ_TOPIC_NOTE = "penstock.dev/dead-letter-topic"
PATH_NOTE = "penstock.dev/path"


def channel_status(
    plan: ChannelPlan, subscriptions: Sequence[SubscriptionPlan], world: World, destinations: AddressResolver
) -> WriteStatus:
    """`Ready` = TopicReady, ContractPublished, Addressable, SubscribersReady, DeadLetterSinkResolved."""
    one = plan.object
    mine = sorted(
        (
            sub.record
            for sub in subscriptions
            if sub.record is not None and sub.record.channel_uid == one.uid and not sub.remove
        ),
        key=lambda record: (record.name, record.uid),
    )
    rows = [subscriber_status(record, world.workers.values(), world.now) for record in mine]
    sink, sink_resolved = _dead_letter_sink(plan, destinations)
    served_by = _subscribers_ready(mine, rows)
    parts = (*plan.conditions, served_by, sink_resolved)
    body: dict[str, Any] = {
        "annotations": {TOPIC_NOTE: plan.topic, DLQ_TOPIC_NOTE: plan.dlq_topic},
        "subscribers": [
            {"uid": row.uid, "observedGeneration": row.observed_generation, "ready": row.ready}
            | ({"message": row.message} if row.message else {})
            for row in rows
        ],
    }
    served = world.channels.get(one.uid)
    urls = destinations.addresses(served) if served is not None else ()
    if served is not None and urls:
        body["addresses"] = [{"name": urlsplit(url).scheme, "url": url} for url in urls]
        body["address"] = body["addresses"][0]
        body["annotations"][PATH_NOTE] = served.path
    if sink is not None:
        body["deadLetterSinkUri"] = sink.uri
    return WriteStatus(
        *one.key, one.uid, one.generation, (with_note(ready(parts), (plan.conditions[0], served_by)), *parts), body
    )


def subscription_status(plan: SubscriptionPlan, channel: ChannelPlan | None, world: World) -> WriteStatus:
    """`Ready` = ReferencesResolved, AddedToChannel, ChannelReady."""
    one = plan.object
    parts = (plan.resolved, plan.added, _channel_ready(plan, channel, world))
    body: dict[str, Any] = {}
    if plan.record is not None and plan.resolved.status is ConditionStatus.TRUE:
        sink = plan.record.delivery.dead_letter_sink
        body["physicalSubscription"] = {
            "subscriberUri": plan.record.subscriber.uri,
            "replyUri": plan.record.reply.uri if plan.record.reply else "",
            "deadLetterSinkUri": sink.uri if sink else "",
        }
        body["annotations"] = {"penstock.dev/group": plan.record.group}
    return WriteStatus(*one.key, one.uid, one.generation, (with_note(ready(parts), parts[-1:]), *parts), body)


def _dead_letter_sink(plan: ChannelPlan, destinations: AddressResolver) -> tuple[Addressable | None, Condition]:
    resource = plan.object.resource
    try:
        sink = destinations.sink(resource.delivery, resource.namespace, "spec.delivery.deadLetterSink")
    except Unresolved as problem:
        return None, problem.condition("DeadLetterSinkResolved")
    if sink is None:
        return None, true("DeadLetterSinkResolved", "DeadLetterTopicUsed", f"dead letters go to {plan.dlq_topic!r}")
    return sink, true("DeadLetterSinkResolved")


def _subscribers_ready(records: Sequence[Subscription], rows: Sequence[SubscriberStatus]) -> Condition:
    parts = [
        serving("SubscribersReady", row, f"Subscription {record.label}")
        for record, row in zip(records, rows, strict=True)
    ]
    return replace(with_note(ready(parts), parts), type="SubscribersReady")


def _channel_ready(plan: SubscriptionPlan, channel: ChannelPlan | None, world: World) -> Condition:
    if plan.record is None or plan.remove:
        return unknown("ChannelReady", "NotAddedToChannel", "waits until it is added to its channel")
    if channel is not None:
        for condition in channel.conditions[:2]:
            if condition.status is not ConditionStatus.TRUE:
                return Condition("ChannelReady", condition.status, condition.reason, condition.message)
    row = subscriber_status(plan.record, world.workers.values(), world.now)
    return serving("ChannelReady", row)
