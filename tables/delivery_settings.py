"""The delivery of a subscription as a person reads it: what applies, and where each field comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from knative.contract.records import TRIGGER, Subscription
from knative.resources.effective_delivery import FIELDS, SINK


class DeliverySetting(NamedTuple):
    """A field of a `delivery` that applies. `origin`: own, broker, channel or default."""

    name: str
    value: str
    origin: str


def delivery_settings(record: Subscription) -> Iterator[DeliverySetting]:
    """Yields the fields of its `delivery` that have a value, without the dead letter sink."""
    for field, name in FIELDS.items():
        value = getattr(record.delivery, field)
        if value is not None:
            yield DeliverySetting(name, f"{value:g}s" if field.endswith("_s") else f"{value}", origin(record, name))


def dead_letters_to(record: Subscription) -> DeliverySetting:
    """Returns where its dead letters go: the sink and whose it is, or the DLQ topic."""
    sink = record.delivery.dead_letter_sink
    if sink is None:
        return DeliverySetting(SINK, record.dlq_topic, "default")
    return DeliverySetting(SINK, sink.shown_uri, origin(record, SINK))


def origin(record: Subscription, name: str) -> str:
    """Returns where a field of its `delivery` comes from."""
    if name in record.delivery_own:
        return "own"
    return shared(record) if name in record.delivery_inherited else "default"


def shared(record: Subscription) -> str:
    """Returns what it inherits fields from."""
    return "broker" if record.kind == TRIGGER else "channel"
