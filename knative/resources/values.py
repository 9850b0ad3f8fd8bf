"""The resources that people write, as frozen values with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from knative.delivery.policy import Addressable, BackoffPolicy, DeliveryFormat, DeliveryOrder, OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS, Filter
from knative.resources.destination import Destination

MESSAGING = "messaging.knative.dev"
EVENTING = "eventing.knative.dev"

RETENTION_S = 168 * 3600.0
CONCURRENCY = 100


class Start(StrEnum):
    """Where a new subscription starts in its topic."""

    LATEST = "latest"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class StartTime:
    """A new subscription starts at the first record that is not older than this time."""

    unix_ms: int
    text: str  #: as written, for messages

    def __str__(self) -> str:
        return self.text


StartPosition = Start | StartTime


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """A `delivery` as written, its sink not resolved. None = not written. Durations are in seconds."""

    retry: int | None = None
    backoff_policy: BackoffPolicy | None = None
    backoff_delay_s: float | None = None
    timeout_s: float | None = None
    retry_after_max_s: float | None = None
    format: DeliveryFormat | None = None
    dead_letter_sink: Destination | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An entry of `KafkaChannel.spec.subscribers`: a subscription that another controller has resolved."""

    uid: str
    name: str
    generation: int
    subscriber: Destination
    reply: Destination | None = None
    delivery: DeliveryRules | None = None


@dataclass(frozen=True, slots=True)
class KafkaChannel:
    """A topic with an address."""

    namespace: str
    name: str
    partitions: int = 1
    replication: int = 1
    retention_s: float = RETENTION_S
    delivery: DeliveryRules | None = None
    subscribers: tuple[Subscriber, ...] = ()
    ghosts: tuple[Subscriber, ...] = ()  #: entries of `spec.subscribers` whose Subscription is gone; never served
    hosts: tuple[str, ...] = ()  #: further Host values that the user chose, lower-case, without port
    keep_topic: bool = False
    kind: str = "KafkaChannel"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Wants the events of a channel in the same namespace."""

    namespace: str
    name: str
    channel: str
    subscriber: Destination
    reply: Destination | None = None
    delivery: DeliveryRules | None = None
    order: DeliveryOrder | None = None  #: None = ordered
    concurrency: int | None = None  #: None = CONCURRENCY
    start: StartPosition = Start.LATEST
    exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER
    kind: str = "Subscription"


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap. Only those that a Broker's `spec.config` names matter."""

    namespace: str
    name: str
    data: Mapping[str, str] = field(default_factory=dict)
    kind: str = "ConfigMap"


@dataclass(frozen=True, slots=True)
class Broker:
    """A topic with an address. Triggers choose events of it by filters; replies of their subscribers come back into "
    "it."""

    namespace: str
    name: str
    class_: str  #: the annotation `eventing.knative.dev/broker.class`; only KAFKA_CLASS is served
    config: tuple[str, str] | None = None  #: (namespace, name) of its ConfigMap
    external_topic: str = ""  #: use this topic, and never create, change or delete it
    delivery: DeliveryRules | None = None
    order: DeliveryOrder | None = None  #: of its Triggers that have none of their own
    concurrency: int | None = None  #: as for `order`
    hosts: tuple[str, ...] = ()
    keep_topic: bool = False
    address: Addressable | None = None  #: in a cluster, what the status of one of another class says
    kind: str = "Broker"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Wants those events of a broker in the same namespace that pass its filter."""

    namespace: str
    name: str
    broker: str
    subscriber: Destination
    filter: Filter = ALL_EVENTS
    delivery: DeliveryRules | None = None
    order: DeliveryOrder | None = None  #: None = the broker's, else key-ordered
    concurrency: int | None = None  #: None = the broker's, else CONCURRENCY
    start: StartPosition = Start.LATEST
    exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER
    dependency: str = ""  #: the object in the annotation `knative.dev/dependency`, as messages name it
    kind: str = "Trigger"


@dataclass(frozen=True, slots=True)
class ResetOffset:
    """Moves the offsets of one Subscription or Trigger in the same namespace, once."""

    namespace: str
    name: str
    to: StartPosition
    ref_kind: str  #: Subscription or Trigger
    ref_name: str
    over: bool = False  #: its status says that it was carried out or refused
    created: float = 0.0  #: Unix seconds, by the clock of the API server; a file does not say it
    kind: str = "ResetOffset"


@dataclass(frozen=True, slots=True)
class EventType:
    """Says that events of a type come. `channel`: where, (kind, namespace, name) of a KafkaChannel or Broker; None = it
    does not say it, or names something else. `field` is where it says it."""

    namespace: str
    name: str
    type: str
    channel: tuple[str, str, str] | None = None
    field: str = "spec.reference"
    kind: str = "EventType"


Resource = KafkaChannel | Subscription | Broker | Trigger | ConfigMap | ResetOffset | EventType
