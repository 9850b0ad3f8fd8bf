"""The input and output of `reconcile`: objects with identity, the observed world, and actions, all frozen values.

An action says what to do, never how: `executor` needs only its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from knative.contract import records
from knative.resources.conditions import Condition
from knative.resources.kinds import KafkaChannel, Resource, Start, Subscription

R = TypeVar("R", bound=Resource, covariant=True)
Configs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Object(Generic[R]):
    """A resource with its identity: a new uid is a new object, a new generation a changed spec."""

    uid: str
    generation: int
    spec_hash: str
    resource: R

    @property
    def key(self) -> tuple[str, str, str]:
        """(kind, namespace, name)."""
        return self.resource.kind, self.resource.namespace, self.resource.name


AnyObject = Object[KafkaChannel] | Object[Subscription]


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """A topic as observed in Kafka. `configs` has those that the controller manages."""

    partitions: int
    replication: int
    configs: Mapping[str, str] = field(default_factory=dict)
    id: str = ""  #: changes if the topic is deleted and created again; "" = this Kafka has no topic ids


class GroupState(Enum):
    """The state of a consumer group. A group that was not observed counts as ABSENT."""

    ABSENT = "absent"
    EMPTY = "empty"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class ObservedKafka:
    """The state in Kafka of everything in `Wanted`. A topic that is missing here does not exist."""

    topics: Mapping[str, ObservedTopic] = field(default_factory=dict)
    committed: Mapping[str, frozenset[int]] = field(default_factory=dict)  #: group -> partitions with an offset
    groups: Mapping[str, GroupState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What must be observed in Kafka before deciding."""

    topics: frozenset[str]
    starts: tuple[tuple[str, str], ...]  #: (group, topic) of subscriptions that are not published yet
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removed resource leaves in Kafka. Remembered until all of it is deleted."""

    uid: str
    kind: str
    label: str
    topic: str  #: the topic that it owned or read
    group: str = ""
    topics: tuple[str, ...] = ()  #: to be deleted
    since: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a decision depends on, at one moment."""

    objects: tuple[AnyObject, ...] = ()
    observed: ObservedKafka = field(default_factory=ObservedKafka)
    channels: Mapping[str, records.Channel] = field(default_factory=dict)  #: as published, by uid
    subscriptions: Mapping[str, records.Subscription] = field(default_factory=dict)
    workers: Mapping[str, records.WorkerStatus] = field(default_factory=dict)
    removals: Mapping[str, Removal] = field(default_factory=dict)  #: by uid
    retained: frozenset[str] = (
        frozenset()
    )  #: uids of the contract whose file cannot be read: neither changed nor removed
    failures: Mapping[str, str] = field(default_factory=dict)  #: `Action.target` -> why its last try failed
    now: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic. It is a success if the topic exists already."""

    topic: str
    partitions: int
    replication: int
    configs: Configs

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class AlterTopicConfig:
    """Set these configs of a topic, and leave the others."""

    topic: str
    configs: Configs

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Raise a topic to `partitions` in total."""

    topic: str
    partitions: int

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic with all its records."""

    topic: str

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class CommitStart:
    """Commit the start offsets of a group in these partitions, and read them back."""

    group: str
    topic: str
    partitions: tuple[int, ...]
    start: Start

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"group {self.group}"


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a consumer group that has no members."""

    group: str

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"group {self.group}"


@dataclass(frozen=True, slots=True)
class PublishChannel:
    """Store this contract record."""

    channel: records.Channel

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"contract {self.channel.uid}"


@dataclass(frozen=True, slots=True)
class PublishSubscription:
    """Store this contract record."""

    subscription: records.Subscription

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"contract {self.subscription.uid}"


@dataclass(frozen=True, slots=True)
class Retract:
    """Remove a contract record (tombstone)."""

    uid: str

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"contract {self.uid}"


@dataclass(frozen=True, slots=True)
class Remember:
    """Save a removal durably before its contract record is retracted: a crash must not leave an unknown topic."""

    removal: Removal

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"removal {self.removal.uid}"


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget a removal, because it is complete or was given up (`why`)."""

    uid: str
    why: str = ""

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"removal {self.uid}"


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write an object's status. Conditions have no times: the writer knows their last change."""

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    conditions: tuple[Condition, ...]
    body: Mapping[str, Any]  #: the rest of `status`

    @property
    def target(self) -> str:
        """The key under which a failure of this action is remembered."""
        return f"status {self.kind} {self.namespace}/{self.name}"


Action = (
    CreateTopic
    | AlterTopicConfig
    | AddPartitions
    | DeleteTopic
    | CommitStart
    | DeleteGroup
    | PublishChannel
    | PublishSubscription
    | Retract
    | Remember
    | Forget
    | WriteStatus
)
