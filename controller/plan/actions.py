"""The input and output of `reconcile`: objects with identity, the observed world, and actions, all frozen values.

An action says what to do, never how: `executor` needs only its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from controller.model import Key
from knative.contract import records
from knative.contract.broker_secrets import SecretProblem
from knative.contract.leader_state import Removal
from knative.contract.seeks import Move, Seek, SeekRequest
from knative.delivery.policy import Addressable
from knative.resources.conditions import Condition
from knative.resources.destination import Ref
from knative.resources.values import (
    Broker,
    ConfigMap,
    EventType,
    KafkaChannel,
    ResetOffset,
    StartPosition,
    Subscription,
    Trigger,
)


class Named(Protocol):
    """What has a kind, a namespace and a name."""

    @property
    def kind(self) -> str:
        """Such as KafkaChannel."""

    @property
    def namespace(self) -> str:
        """Where it is."""

    @property
    def name(self) -> str:
        """Unique for its kind in a namespace."""


R = TypeVar("R", bound=Named, covariant=True)
Configs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Object(Generic[R]):
    """A resource with its identity: a new uid is a new object, a new generation a changed spec."""

    uid: str
    generation: int
    spec_hash: str
    resource: R

    @property
    def key(self) -> Key:
        """(kind, namespace, name)."""
        return self.resource.kind, self.resource.namespace, self.resource.name


AnyObject = (
    Object[KafkaChannel]
    | Object[Subscription]
    | Object[Broker]
    | Object[Trigger]
    | Object[ConfigMap]
    | Object[ResetOffset]
    | Object[EventType]
)


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
    UNKNOWN = "unknown"  #: Kafka did not say


@dataclass(frozen=True, slots=True)
class ObservedKafka:
    """The state in Kafka of everything in a `Scope`. A topic that is missing here does not exist."""

    topics: Mapping[str, ObservedTopic] = field(default_factory=dict)
    committed: Mapping[str, frozenset[int]] = field(default_factory=dict)  #: group -> partitions with an offset
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: group -> partition -> committed offset
    unknown: Mapping[str, str] = field(default_factory=dict)  #: group -> why it could not be observed
    #: topic of a broker -> members of its fan-out's group; None = it could not be observed
    fanouts: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """What must be observed in Kafka before deciding."""

    topics: frozenset[str]
    starts: tuple[tuple[str, str], ...]  #: (group, topic) of subscriptions that are not published yet
    groups: frozenset[str]
    offsets: tuple[tuple[str, str], ...] = ()  #: (group, topic) whose offsets are being moved
    fanouts: tuple[tuple[str, str], ...] = ()  #: (group, topic) of fan-outs with a Trigger that is being stopped


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What a cluster shows of the objects that destinations refer to, and who resolves Subscriptions."""

    #: address of each ref whose object is there; None = the object has no address (yet). A v1 Service has none here:
    #: its name is its address.
    addresses: Mapping[Ref, Addressable | None] = field(default_factory=dict)
    unknown: Mapping[tuple[str, str], str] = field(default_factory=dict)  #: (apiVersion, kind) -> why it cannot be read
    loading: frozenset[tuple[str, str]] = frozenset()  #: kinds that are not listed yet
    #: (apiVersion, kind, namespace) -> why the API server refuses the list, and what to grant; namespace "" = all, and
    #: apiVersion "" = one of our kinds
    refused: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    #: (kind, namespace, name) of what a ResetOffset may refer to and that may be served later: not valid, without our
    #: finalizer, or waiting for Knative's core to write it into its channel
    expected: frozenset[Key] = frozenset()
    #: uid of a channel -> why its Service is not as it should be
    services: Mapping[str, str] = field(default_factory=dict)
    core: bool = False  #: Knative's own controller resolves Subscriptions

    def why_refused(self, api_version: str, kind: str, namespace: str) -> str | None:
        """Returns why an object of this kind cannot be read; None = it can."""
        return self.refused.get((api_version, kind, namespace)) or self.refused.get((api_version, kind, ""))


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a decision depends on, at one moment."""

    objects: tuple[AnyObject, ...] = ()
    observed: ObservedKafka = field(default_factory=ObservedKafka)
    channels: Mapping[str, records.Channel] = field(default_factory=dict)  #: as published, by uid
    subscriptions: Mapping[str, records.Subscription] = field(default_factory=dict)
    workers: Mapping[str, records.WorkerStatus] = field(default_factory=dict)
    removals: Mapping[str, Removal] = field(default_factory=dict)  #: by uid
    creations: Mapping[str, Removal] = field(default_factory=dict)  #: by uid: recorded before anything is created
    #: uids of creations whose objects are gone, and nothing said: deleted; since which Unix second this leader knows it
    vanished: Mapping[str, float] = field(default_factory=dict)
    #: uids of the contract whose objects may be there, but cannot be read: neither changed nor removed
    retained: frozenset[str] = frozenset()
    #: in a cluster: the API server says what was deleted. In a directory, what is missing may come back: it is unlisted
    missing_is_deleted: bool = True
    asked: frozenset[str] = frozenset()  #: uids that a person wants to remove
    failures: Mapping[str, str] = field(default_factory=dict)  #: `Action.target` -> why its last try failed
    unavailable: str | None = None  #: why Kafka could not be observed; then the actions are not to be carried out
    now: float = 0.0  #: Unix seconds
    leads_since: float = 0.0  #: Unix seconds at which this leader began
    cluster: ClusterView | None = None  #: None = the objects are from files
    complete: bool = True  #: what is not in `objects` does not exist
    seeks: Mapping[str, Seek] = field(default_factory=dict)  #: as recorded, by id
    moved: frozenset[str] = frozenset()  #: groups whose new offsets this leader has committed, of seeks that are MOVING
    seek_requests: tuple[SeekRequest, ...] = ()
    secrets: Mapping[str, SecretProblem] = field(default_factory=dict)  #: those of Brokers that this process cannot use
    silent: frozenset[str] = frozenset()  #: workers whose record has not changed for so long that they are gone
    #: uids whose objects to decide on, in a world with only what they depend on (see `parts`); None = everything
    only: frozenset[str] | None = None

    def decides(self, uid: str) -> bool:
        """Returns whether the decision includes this object."""
        return self.only is None or uid in self.only


class Action:
    """One step of the controller. Frozen values; `executor` carries them out."""

    __slots__ = ()

    @property
    def target(self) -> str:
        """What the step is about, such as `topic orders`. A failure is remembered under it until a step with the same
        target succeeds, and conditions look it up there."""
        match self:
            case MakeRoom():
                return room_target(self.topic)
            case CreateTopic() | AlterTopicConfig() | AddPartitions() | DeleteTopic():
                return f"topic {self.topic}"
            case CommitStart() | DeleteGroup() | MoveOffsets():
                return f"group {self.group}"
            case PublishChannel():
                return contract_target(self.channel.uid)
            case PublishSubscription():
                return contract_target(self.subscription.uid)
            case Retract():
                return contract_target(self.uid)
            case Remember():
                return f"removal {self.removal.uid}"
            case Forget() | CancelRemoval():
                return f"removal {self.uid}"
            case RecordCreations():
                return "creations"
            case RememberSeek() | FindOffsets():
                return f"seek {self.seek.id}"
            case ForgetSeek():
                return f"seek {self.id}"
            case WriteStatus():
                return f"status {self.kind} {self.namespace}/{self.name}"
        raise TypeError(f"unknown action {self!r}")


def room_target(topic: str) -> str:
    """Returns what the room for large events in a topic is remembered under."""
    return f"room in topic {topic}"


def contract_target(uid: str) -> str:
    """Returns the target of the actions that change the contract record of this object."""
    return f"contract {uid}"


@dataclass(frozen=True, slots=True)
class CreateTopic(Action):
    """Create a topic. It is a success if the topic exists already. `unasked`: configs that no user has asked for; a
    Kafka that refuses them gets the topic without them."""

    topic: str
    partitions: int
    replication: int
    configs: Configs
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTopicConfig(Action):
    """Set these configs of a topic, give those in `reset` their default again, and leave the others."""

    topic: str
    configs: Configs
    reset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MakeRoom(Action):
    """Set the configs of a topic that no user has asked for. A Kafka may refuse them: the topic is served all the
    same."""

    topic: str
    configs: Configs


@dataclass(frozen=True, slots=True)
class AddPartitions(Action):
    """Raise a topic to `partitions` in total."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class DeleteTopic(Action):
    """Delete a topic with all its records."""

    topic: str


@dataclass(frozen=True, slots=True)
class CommitStart(Action):
    """Commit the start offsets of a group in these partitions, and read them back."""

    group: str
    topic: str
    partitions: tuple[int, ...]
    start: StartPosition


@dataclass(frozen=True, slots=True)
class DeleteGroup(Action):
    """Delete a consumer group that has no members."""

    group: str


@dataclass(frozen=True, slots=True)
class PublishChannel(Action):
    """Store this contract record."""

    channel: records.Channel


@dataclass(frozen=True, slots=True)
class PublishSubscription(Action):
    """Store this contract record."""

    subscription: records.Subscription


@dataclass(frozen=True, slots=True)
class Retract(Action):
    """Remove a contract record (tombstone)."""

    uid: str


@dataclass(frozen=True, slots=True)
class Remember(Action):
    """Record a removal before its contract record is retracted: a crash must not leave an unknown topic."""

    removal: Removal


@dataclass(frozen=True, slots=True)
class RecordCreations(Action):
    """Record these creations and no others, before any other action: until the contract has a resource, nothing else
    tells of its topics and its group."""

    creations: tuple[Removal, ...]
    given_up: tuple[Removal, ...] = ()  #: of objects that have vanished; their topics stay


@dataclass(frozen=True, slots=True)
class Forget(Action):
    """Forget a removal, because it is complete or was given up (`why`)."""

    uid: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class CancelRemoval(Action):
    """Forget a removal of which nothing was carried out yet, because the resource is there again."""

    uid: str


@dataclass(frozen=True, slots=True)
class RememberSeek(Action):
    """Record a seek in its present phase, before the first step of that phase."""

    seek: Seek


@dataclass(frozen=True, slots=True)
class ForgetSeek(Action):
    """Forget a seek that is over and that nobody asks for any more."""

    id: str


@dataclass(frozen=True, slots=True)
class FindOffsets(Action):
    """Look up the old and the new offset of each partition, and record both: the seek is MOVING then."""

    seek: Seek
    partitions: int


@dataclass(frozen=True, slots=True)
class MoveOffsets(Action):
    """Commit the new offsets of a group that nobody uses. What is settled above the old ones is forgotten."""

    group: str
    topic: str
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class WriteStatus(Action):
    """Write an object's status. Conditions have no times: the writer knows their last change."""

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    conditions: tuple[Condition, ...]
    body: Mapping[str, Any]  #: the rest of `status`
