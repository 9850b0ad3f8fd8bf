"""One subscription or trigger: whether it is ready, what flows, what waits for what, its settings, its filter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from knative import filters
from knative.contract.explanation import MARKS, explain_event, order, reason, tree
from knative.contract.records import SUBSCRIPTION, TRIGGER, Subscription
from knative.delivery.policy import OnRetriesExhausted
from knative.errors import UsageError
from tables.delivery_settings import DeliverySetting, dead_letters_to, delivery_settings, origin
from tables.resource_status import ResourceStatus
from tables.subscriber_details import SubscriberDetails
from web.console.acts import StoredEvent
from web.console.cures import cure_of
from web.console.page import Ask, NotThere, Page, Values
from web.console.pages.events import is_number
from web.console.rows import PATHS, condition_rows, row_of, with_flows
from web.console.state import Known, PartitionLag, State
from web.console.traffic import delivery_times

#: What the form of a filter shows first.
_EXAMPLE = """{
  "specversion": "1.0",
  "id": "1",
  "source": "/shop",
  "type": "order.created",
  "data": {}
}"""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition with its owner. The figures are None as long as Kafka has not answered."""

    number: int
    owner: str | None
    lag: PartitionLag | None


def page_of(kind: str) -> Page:
    """Returns the page of subscriptions, or that of triggers."""

    async def build(ask: Ask) -> Values:
        status = find(ask.state, kind, ask.path["namespace"], ask.path["name"])
        subscription = status.subscription
        newest: Sequence[StoredEvent] = ()
        if subscription is None:
            lag = None
        elif ask.is_live:
            lag = await ask.reads.lag(subscription)
        else:
            lag, newest = await asyncio.gather(ask.reads.lag(subscription), _newest(ask, subscription))
        return {**await asyncio.to_thread(values_of, ask.state, status, lag), "newest": newest}

    async def post(ask: Ask) -> Values:
        status = find(ask.state, kind, ask.path["namespace"], ask.path["name"])
        event, place = ask.form.get("event", ""), ask.form.get("pick")
        if place is not None:
            picked = None if status.subscription is None else await _picked(ask, status.subscription, place)
            if picked is None:
                return {"event": event, "problem": "This event is no longer in the topic. Pick another event."}
            event = picked
        return await asyncio.to_thread(explained, status, event)

    path = f"/{PATHS[kind]}/{{namespace}}/{{name}}"
    return Page(path, "subscription.html", build, post=post, writes=False)


async def _newest(ask: Ask, subscription: Subscription) -> Sequence[StoredEvent]:
    events = await ask.acts.tail(subscription.topic, "")
    return () if events is None else events.events[: ask.limits.picks_max]


async def _picked(ask: Ask, subscription: Subscription, place: str) -> str | None:
    """Returns an event of its topic as a person would write it, without its data: filters look at attributes. None: it
    is not there."""
    partition, _, offset = place.partition("/")
    if not (is_number(partition) and is_number(offset)):
        return None
    event = await ask.acts.event(subscription.topic, int(partition), int(offset))
    return None if event is None else json.dumps(dict(event.attributes), indent=2, ensure_ascii=False)


def find(state: State, kind: str, namespace: str, name: str) -> ResourceStatus:
    """Returns the resource of this name. Raises NotThere."""
    for status in state.resources:
        if (status.kind, status.namespace, status.name) == (kind, namespace, name):
            return status
    raise NotThere(f"The {kind} {namespace}/{name} does not exist.")


def values_of(state: State, status: ResourceStatus, lag: Known[Sequence[PartitionLag]] | None) -> Values:
    """Returns what the page shows."""
    subscription, details = status.subscription, status.details
    error = None if details is None else details.last_error
    (row,) = with_flows([row_of(status, state.letters)], state.traffic)
    return {
        "status": status,
        "row": row,
        "times": delivery_times(state.traffic, row.name_in_traffic),
        "cure": cure_of(status.ready),
        "conditions": condition_rows(status),
        "details": details,
        "heads": [] if details is None else [(*head, head[1].next_attempt - state.at_s) for head in details.heads],
        "error": error,
        "error_age_s": None if error is None else state.at_s - error[1].time,
        "partitions": [] if subscription is None else partitions_of(subscription, details, lag),
        "lag_age_s": None if lag is None else state.now_s - lag.at_s,
        "delivery": [] if subscription is None else [*delivery_settings(subscription), dead_letters_to(subscription)],
        "settings": [] if subscription is None else settings_of(subscription),
        "filter": None if subscription is None else filter_of(subscription),
        "command_name": status.label,
        "event": _EXAMPLE,
        "explanation": None,
        "problem": None,
    }


def partitions_of(
    subscription: Subscription, details: SubscriberDetails | None, lag: Known[Sequence[PartitionLag]] | None
) -> list[Partition]:
    """Returns all partitions in order."""
    owners = {number: worker for worker, numbers in (() if details is None else details.owners) for number in numbers}
    lags = {} if lag is None else {partition.partition: partition for partition in lag.value}
    return [Partition(number, owners.get(number), lags.get(number)) for number in range(subscription.partitions)]


def settings_of(subscription: Subscription) -> list[DeliverySetting]:
    """Returns what its `delivery` does not have, in the same form."""
    exhausted = subscription.exhausted
    rows = [
        ("subscriber", subscription.subscriber.shown_uri, "own"),
        ("reply", None if subscription.reply is None else subscription.reply.shown_uri, "own"),
        ("order", str(subscription.order), _annotated(subscription, "order")),
        ("concurrency", str(subscription.concurrency), _annotated(subscription, "concurrency")),
        (
            "when retries end",
            str(exhausted),
            "default" if exhausted is OnRetriesExhausted.DEAD_LETTER else "annotation",
        ),
        ("topic", subscription.topic, "channel" if subscription.kind == SUBSCRIPTION else "broker"),
        ("consumer group", subscription.group, "controller"),
        ("uid", subscription.uid, "controller"),
        ("generation", str(subscription.generation), "controller"),
    ]
    return [DeliverySetting(name, value, origin) for name, value, origin in rows if value is not None]


def _annotated(subscription: Subscription, name: str) -> str:
    whose = origin(subscription, name)
    return "annotation" if whose == "own" else whose


def filter_of(subscription: Subscription) -> str | None:
    """Returns the filter as it is written; None = every event matches."""
    if subscription.filter == filters.ALL_EVENTS:
        return None
    return json.dumps(filters.to_json(subscription.filter), indent=2, ensure_ascii=False)


def explained(status: ResourceStatus, event: str) -> Values:
    """Returns what the filter says about an event that a person has written."""
    subscription = status.subscription
    if subscription is None:
        raise NotThere(f"{status.kind} {status.label} was never served, so its filter is not known.")
    try:
        explanation = explain_event(
            status.label, subscription.filter, subscription.order, event.encode("utf-8", "replace"), "The event"
        )
    except UsageError as problem:
        return {"event": event, "problem": str(problem)}
    values = {
        "passes": explanation.passes,
        "reason": reason(explanation),
        "tree": "\n".join(tree(explanation.parts, MARKS)),
        "order": order(explanation),
    }
    return {"event": event, "explanation": values}


PAGES = (page_of(SUBSCRIPTION), page_of(TRIGGER))
