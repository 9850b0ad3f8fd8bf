"""Which features a record of the contract needs: those whose fields a reader must not ignore.

A later version may add fields that older readers ignore. If ignoring one would deliver wrong events, or deliver them to
the wrong place, the field belongs to a feature. A record names the features that it needs, so that a reader which does
not know one of them leaves this record alone and says so.
"""

from __future__ import annotations

from enum import StrEnum

from knative.contract.records import BROKER, TRIGGER, Channel, Subscription
from knative.delivery.policy import DeliveryFormat
from knative.filters.dialects import ALL_EVENTS


class Feature(StrEnum):
    """What this version supports. The values are texts of the contract topic."""

    BROKER = "broker"  #: the address of a broker
    EXTERNAL_TOPIC = "external-topic"  #: a topic that must never be deleted
    FILTER = "filter"  #: events that do not pass are not delivered
    TRIGGER = "trigger"  #: replies go back into the broker
    JSON_FORMAT = "json-format"  #: deliveries in structured mode
    KAFKA_SECRET = "kafka-secret"  #: credentials of its own for Kafka: with others, it is another user who does it
    STOPPED = "stopped"  #: no event is delivered while a seek moves the offsets
    UNLISTED = "unlisted"  #: no event is delivered while no file has it


SUPPORTED = frozenset(map(str, Feature))


def needs(entry: Channel | Subscription) -> list[str]:
    """Returns the features that an entry needs, sorted; none = every version can serve it."""
    if isinstance(entry, Channel):
        uses = {Feature.BROKER: entry.kind == BROKER, Feature.EXTERNAL_TOPIC: entry.external}
        uses[Feature.KAFKA_SECRET] = bool(entry.secret)
    else:
        uses = {
            Feature.FILTER: entry.filter != ALL_EVENTS,
            Feature.TRIGGER: entry.kind == TRIGGER,
            Feature.JSON_FORMAT: entry.delivery.format is DeliveryFormat.JSON,
            Feature.KAFKA_SECRET: bool(entry.secret),
            Feature.STOPPED: entry.stopped,
            Feature.UNLISTED: entry.unlisted,
        }
    return sorted(str(feature) for feature, needed in uses.items() if needed)
