"""The contract: what the data plane must serve, as records of a compacted topic keyed by resource uid.

The controller writes it and workers read it; they share nothing else. The fields here are those of the records: `codec`
encodes and decodes them, and the topology reads them with Spark under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from knative.contract.broker_secrets import SecretProblem
from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS, Filter

SCHEMA_VERSION = 1
SCHEMA_WITH_NEEDS = 2  #: of contract records that name the features they need
#: Kinds of records: what owns a topic, and what reads it.
CHANNEL, BROKER = "KafkaChannel", "Broker"
SUBSCRIPTION, TRIGGER = "Subscription", "Trigger"


def unique_name(kind: str, name: str) -> str:
    """Returns a name that no resource of another kind has: names of resources contain no `:`."""
    return f"{kind.lower()}:{name}" if kind in (BROKER, TRIGGER) else name


def kind_and_name(label: str, plain: str) -> tuple[str, str]:
    """Returns the kind and `namespace/name` of what has this label (or unique name). `plain`: the kind of a name
    without a prefix."""
    namespace, slash, unique = label.rpartition("/")
    prefix, _, name = unique.rpartition(":")
    kind = {kind.lower(): kind for kind in (BROKER, TRIGGER)}.get(prefix, plain)
    return kind, f"{namespace}{slash}{name}"


class _Named:
    """What has a kind, a namespace and a name."""

    __slots__ = ()
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> tuple[str, str, str]:
        """(kind, namespace, name)."""
        return self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """`KIND/NAMESPACE/NAME`, as commands take it."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def unique_name(self) -> str:
        """Its name in metrics and traffic: `broker:<name>` of a Broker, which may have the name of a KafkaChannel, and
        `trigger:<name>` of a Trigger."""
        return unique_name(self.kind, self.name)

    @property
    def label(self) -> str:
        """`namespace/name`, of a Broker `namespace/broker:name`; for messages and metrics."""
        return f"{self.namespace}/{self.unique_name}"


@dataclass(frozen=True, slots=True)
class Channel(_Named):
    """A resource that owns a topic."""

    uid: str
    generation: int
    namespace: str
    name: str
    topic: str
    dlq_topic: str
    partitions: int
    hosts: tuple[str, ...] = ()  #: lower-case Host values (no port) published as its address
    kind: str = CHANNEL
    spec_hash: str = ""  #: of the spec as written, so that a source without generations notices a change
    keep_topic: bool = False  #: the topics outlive the resource; recorded here because its file is gone by then
    config_map: str = ""  #: `namespace/name` of a Broker's ConfigMap
    external: bool = False  #: the topic is not ours: it outlives the resource, its DLQ topic does not
    config_keys: tuple[
        str, ...
    ] = ()  #: configs that its ConfigMap set in the topic; one that is removed there is reset
    secret: str = ""  #: `namespace/name` of a Broker's own Secret for Kafka; "" = it uses that of the installation
    unlisted: bool = False  #: no file has it any more: it is not served, and keeps its topics until a person removes it

    @property
    def path(self) -> str:
        """The URL path of the channel or broker at any ingress."""
        return f"/{self.namespace}/{self.name}" if self.kind == BROKER else f"/channels/{self.namespace}/{self.name}"

    @property
    def owned_topics(self) -> tuple[str, ...]:
        """The topics that are deleted with the resource."""
        if self.keep_topic:
            return ()
        return (self.dlq_topic,) if self.external else (self.topic, self.dlq_topic)


def named_channel(channels: Iterable[Channel], namespace: str, name: str) -> Channel | None:
    """Returns the channel or broker of a name: `broker:<name>` is a Broker; so is a name alone that no channel has."""
    here = [channel for channel in channels if channel.namespace == namespace]
    exact = [channel for channel in here if channel.unique_name == name]
    return next(iter(exact or [channel for channel in here if channel.name == name]), None)


@dataclass(frozen=True, slots=True)
class Subscription(_Named):
    """A resource that wants the events of a channel. Complete: a worker needs nothing else to deliver."""

    uid: str
    generation: int
    namespace: str
    name: str
    channel_uid: str
    channel: str  #: name of the channel (same namespace)
    topic: str
    dlq_topic: str
    partitions: int
    group: str
    subscriber: Addressable
    reply: Addressable | None = None
    delivery: DeliverySpec = field(default_factory=DeliverySpec)
    order: DeliveryOrder = DeliveryOrder.ORDERED
    concurrency: int = 100
    exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER
    kind: str = SUBSCRIPTION
    spec_hash: str = ""  #: as for a channel
    filter: Filter = ALL_EVENTS  #: of a Trigger
    topic_id: str = ""  #: Kafka's id of the topic that its start offsets belong to; "" = not known
    seek: str = ""  #: id of the last seek; another one means that offsets which a worker remembers do not count
    stopped: bool = False  #: no worker may serve it, because this seek moves its offsets
    secret: str = ""  #: `namespace/name` of its channel's Secret; "" = none
    unlisted: bool = False  #: no file has it or its channel any more: it is not served, and keeps its group
    #: Which fields of its `delivery`, and of `order` and `concurrency`, it has itself. For people.
    delivery_own: tuple[str, ...] = ()
    delivery_inherited: tuple[str, ...] = ()  #: those that its channel or broker gives it; all others are defaults

    @property
    def is_served(self) -> bool:
        """Whether workers deliver its events."""
        return not (self.stopped or self.unlisted)

    @property
    def offsets_of(self) -> str:
        """What its committed offsets belong to: with another topic, or after a seek, those from before do not count."""
        return f"{self.channel_uid}/{self.topic_id}/{self.seek}"

    @property
    def unique_channel(self) -> str:
        """`unique_name` of its channel."""
        return unique_name(BROKER if self.kind == TRIGGER else "", self.channel)


@dataclass(frozen=True, slots=True)
class Unsupported(_Named):
    """The part that this version reads from a subscription that it cannot serve."""

    uid: str
    generation: int
    namespace: str
    name: str
    kind: str
    features: tuple[str, ...]  #: those that it needs and this version does not know

    @property
    def reason(self) -> str:
        """Why it is not served; for messages."""
        return f"needs {', '.join(self.features)}, which this version does not know; update this worker"

    @property
    def status(self) -> WorkerSubscription:
        """What a worker reports about it."""
        return WorkerSubscription(self.generation, (), WorkerState.UNSUPPORTED, self.reason)


class WorkerState(StrEnum):
    """How far one worker is with one subscription. The values are texts of the status topic."""

    STARTING = "starting"  #: owns no partition yet
    RUNNING = "running"
    WAITING_FOR_KAFKA = "waiting for Kafka"  #: starts no new deliveries, because Kafka does not confirm commits
    FAILED = "failed"  #: does not serve some of its partitions
    UNSUPPORTED = "unsupported"  #: does not serve it, because it needs a newer version
    SECRET_NOT_TRIED = "Kafka secret not tried yet"  #: does not serve it: Kafka has not said if it accepts its Secret
    SECRET_NOT_FOUND = "Kafka secret not found"  #: does not serve it, because there is no folder of its Secret
    SECRET_INVALID = "Kafka secret not valid"  #: does not serve it: its Secret is wrong, or Kafka refuses it
    STOPPED = "stopped"  #: has stopped it for the seek with the id in `reason`, and has committed its last offsets


@dataclass(frozen=True, slots=True)
class WorkerSubscription:
    """What one worker reports about one subscription."""

    generation: int
    partitions: tuple[int, ...]
    state: WorkerState
    reason: str = ""  #: of FAILED, UNSUPPORTED, SECRET_NOT_FOUND, SECRET_INVALID and STOPPED
    filter_problem: str = ""  #: why its filter could not judge an event, which then does not match; "" = it could

    @property
    def state_text(self) -> str:
        """The state with its reason, as in the status topic."""
        return f"{self.state}: {self.reason}" if self.reason else self.state.value


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker's status, or a part of it. A record that is older than 10 s does not count."""

    worker: str
    time: float  #: Unix seconds, by the worker's clock
    role: str
    subscriptions: dict[str, WorkerSubscription] = field(default_factory=dict)  #: by subscription uid
    stats: Mapping[str, SubscriptionStats] = field(default_factory=dict)  #: by subscription uid; may be missing
    version: str = ""  #: of Penstock; "" = one that did not report it yet
    features: tuple[str, ...] = ()  #: those that it supports
    secrets: dict[str, SecretProblem] = field(default_factory=dict)  #: those of Brokers that it cannot use
    unused: str | None = None  #: why it does not use settings, Kafka secrets or code that have changed; None = it does
    part: int = 0  #: the number of this part, from 0
    parts: int = 1  #: the number of records that its subscriptions are in


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """One row of the duck type's `status.subscribers` (ready: "True" | "False" | "Unknown")."""

    uid: str
    observed_generation: int
    ready: str
    message: str = ""
    reason: str = ""  #: of the condition that follows from it; "" = the usual one


@dataclass(frozen=True, slots=True)
class ResourceProblem:
    """A problem of an object, or of a file (kind File, name `orders.yaml:4`), as the controller reports it."""

    kind: str
    namespace: str
    name: str
    ready: str  #: "True" (served, except for a part that was rejected) | "False" | "Unknown"
    reason: str
    message: str
    parts: tuple[tuple[str, ...], ...] = ()  #: conditions that are not simply True: type, status, reason, message


@dataclass(frozen=True, slots=True)
class ControllerReport:
    """What the leading controller cannot serve, for readers that do not see its files. Objects without a problem are
    not listed. Workers report themselves which subscriptions they serve."""

    time: float  #: Unix seconds, by the controller's clock
    problems: tuple[ResourceProblem, ...] = ()
    left_out: int = 0  #: number of further problems that did not fit into the record
    foreign: tuple[str, ...] = ()  #: uids of resources that are served, but not in the cluster; a person removes them
    version: str = ""  #: of Penstock, as of a worker
    #: by `label` of a channel or Broker, the types of events that somebody has declared to come to it, sorted. One that
    #: has too many is not there.
    event_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemovalRequest:
    """A person asks the leading controller to remove an unlisted or foreign resource with its group and topics."""

    uid: str
    time: float  #: Unix seconds, by the clock of the command
