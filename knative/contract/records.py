"""The contract: what the data plane must serve, as records of a compacted topic keyed by resource uid.

The controller writes it, workers read it; the two meet in this data and nowhere else. Refuses to say how a record is
stored or read (`tables/contract_table`), and refuses to misread a record of a newer schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable, DeliveryOrder, DeliverySpec, OnRetriesExhausted

SCHEMA_VERSION = 1
#: A worker's state of a subscription: it makes no first attempts, because Kafka confirms no commits.
WAITING_FOR_KAFKA = "waiting for Kafka"


@dataclass(frozen=True, slots=True)
class Channel:
    """A resource that owns a topic."""

    uid: str
    generation: int
    namespace: str
    name: str
    topic: str
    dlq_topic: str
    partitions: int
    hosts: tuple[str, ...] = ()  #: lower-case Host values (no port) published as its address
    kind: str = "KafkaChannel"
    spec_hash: str = ""  #: of the spec as written, so that a source without generations can tell a change
    keep_topic: bool = False  #: the topics outlive the resource; known even when its file is already gone

    @property
    def path(self) -> str:
        """The URL path that addresses it on any ingress."""
        return f"/channels/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A resource that wants the events of a channel; everything a worker needs, nothing to look up."""

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
    kind: str = "Subscription"
    spec_hash: str = ""  #: as for a channel
    topic_id: str = ""  #: Kafka's id of the topic that its start offsets are of; "" = not known

    @property
    def label(self) -> str:
        """`namespace/name`, the way people and metrics name it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class WorkerSubscription:
    """What one worker says of one subscription."""

    generation: int
    partitions: tuple[int, ...]
    state: str  #: "starting" | "running" | WAITING_FOR_KAFKA | "failed: <why>"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker's status record; older than 10 s it no longer counts."""

    worker: str
    time: float  #: Unix seconds, by the worker's clock
    role: str
    subscriptions: dict[str, WorkerSubscription] = field(default_factory=dict)  #: by subscription uid
    stats: dict[str, SubscriptionStats] = field(default_factory=dict)  #: by subscription uid; may be missing


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """One row of the duck type's `status.subscribers` (ready: "True" | "False" | "Unknown")."""

    uid: str
    observed_generation: int
    ready: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResourceProblem:
    """What the controller says of an object that is not simply well, or of a file: name `orders.yaml:4`, kind File."""

    kind: str
    namespace: str
    name: str
    ready: str  #: "True" (something of it was refused, the rest is served) | "False" | "Unknown"
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ControllerReport:
    """What the leading controller cannot take, for readers that do not see its files. Of an object that is not here it
    has nothing to say; whether subscribers are served is not here either: workers' records tell."""

    time: float  #: Unix seconds, by the controller's clock
    problems: tuple[ResourceProblem, ...] = ()
    left_out: int = 0  #: further ones, for which there was no room
    foreign: tuple[str, ...] = ()  #: uids of what is served although no file names it; kept until asked to remove it


@dataclass(frozen=True, slots=True)
class RemovalRequest:
    """A person asks the leading controller to remove a foreign resource with its group and topics."""

    uid: str
    time: float  #: Unix seconds, by the clock of the command
