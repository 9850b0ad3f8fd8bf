"""What reconcile takes and gives: objects with identity, the world as observed, and actions as frozen values.

An action says what, never how; whoever carries it out looks only at its fields. Refuses to do anything.
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
    """A resource with its identity: a new uid is a new object, a new generation a new wish."""

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
    """A topic as Kafka has it; `configs` holds those that we keep in step."""

    partitions: int
    replication: int
    configs: Mapping[str, str] = field(default_factory=dict)
    id: str = ""  #: another one for a topic made anew; "" = this Kafka has none


class GroupState(Enum):
    """What there is of a consumer group; one that was not looked at counts as ABSENT."""

    ABSENT = "absent"
    EMPTY = "empty"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class ObservedKafka:
    """What Kafka answered to the questions of `wanted`; a topic that is not here does not exist."""

    topics: Mapping[str, ObservedTopic] = field(default_factory=dict)
    committed: Mapping[str, frozenset[int]] = field(default_factory=dict)  #: group -> partitions with an offset
    groups: Mapping[str, GroupState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What has to be asked of Kafka before deciding."""

    topics: frozenset[str]
    starts: tuple[tuple[str, str], ...]  #: (group, topic) of subscriptions that are not published yet
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Removal:
    """What is left of a resource that is gone from the contract; remembered until nothing is."""

    uid: str
    kind: str
    label: str
    topic: str  #: the topic that it owned or read
    group: str = ""
    topics: tuple[str, ...] = ()  #: to be deleted
    since: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a decision rests on, at one moment."""

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
    """Make a topic; one that is there already is a success."""

    topic: str
    partitions: int
    replication: int
    configs: Configs

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class AlterTopicConfig:
    """Set these configs of a topic, leave the others."""

    topic: str
    configs: Configs

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Raise a topic to so many partitions."""

    topic: str
    partitions: int

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Remove a topic with everything in it."""

    topic: str

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class CommitStart:
    """Commit where a group begins in these partitions, and read it back."""

    group: str
    topic: str
    partitions: tuple[int, ...]
    start: Start

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"group {self.group}"


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Remove a consumer group that has no members."""

    group: str

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"group {self.group}"


@dataclass(frozen=True, slots=True)
class PublishChannel:
    """Store this contract record."""

    channel: records.Channel

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"contract {self.channel.uid}"


@dataclass(frozen=True, slots=True)
class PublishSubscription:
    """Store this contract record."""

    subscription: records.Subscription

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"contract {self.subscription.uid}"


@dataclass(frozen=True, slots=True)
class Retract:
    """Remove a contract record (tombstone)."""

    uid: str

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"contract {self.uid}"


@dataclass(frozen=True, slots=True)
class Remember:
    """Note a removal durably, before its contract record goes: a crash must not leave a topic that nobody knows."""

    removal: Removal

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"removal {self.removal.uid}"


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing is left of this removal, or it is given up (`why`)."""

    uid: str
    why: str = ""

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
        return f"removal {self.uid}"


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """What an object's status should say. Conditions are without times: the sink knows the last change."""

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    conditions: tuple[Condition, ...]
    body: Mapping[str, Any]  #: the rest of `status`

    @property
    def target(self) -> str:
        """What a failure of this action is remembered under."""
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
