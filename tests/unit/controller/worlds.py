"""Made-up worlds for the tables of reconcile, and a runner that acts on them as Kafka and the contract would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.config import ControllerConfig
from controller.plan.actions import (
    Action,
    AddPartitions,
    AlterTopicConfig,
    AnyObject,
    CancelRemoval,
    CommitStart,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    FindOffsets,
    Forget,
    ForgetSeek,
    GroupState,
    MakeRoom,
    MoveOffsets,
    Object,
    ObservedKafka,
    ObservedTopic,
    PublishChannel,
    PublishSubscription,
    RecordCreations,
    Remember,
    RememberSeek,
    Retract,
    World,
    WriteStatus,
)
from controller.plan.reconcile import reconcile, scope_of
from controller.plan.seeks import in_phase
from knative.contract import records
from knative.contract.seeks import Move, SeekPhase
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.conditions import ConditionStatus
from knative.resources.destination import Destination, Ref
from knative.resources.seek_position import Shift, seek_position, shifted
from knative.resources.values import Broker, ConfigMap, KafkaChannel, ResetOffset, Start, Subscription, Trigger

CONFIG = ControllerConfig(kafka={}, resources_dir=Path("none"), state_dir=Path("none"))
TOPIC = "knative-messaging-kafka.default.orders"
NOW = 1_000_000.0
INGRESS = "http://127.0.0.1:8080"
BROKER_TOPIC = "knative-broker.default.main"
BROKER_DLQ = f"{BROKER_TOPIC}.dlq"
THEIRS = "their.topic"
CONFIG_REF = ("default", "config")
NOWHERE = Destination(ref=Ref("serving.knative.dev/v1", "Service", "", "not-known-here"))
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def channel(name: str = "orders", generation: int = 1, uid: str = "", **fields: Any) -> Object[KafkaChannel]:
    """A channel with uid `c-<name>`."""
    return Object(uid or f"c-{name}", generation, f"h{generation}", KafkaChannel("default", name, **fields))


def subscription(
    name: str = "billing", to: str = "orders", generation: int = 1, uid: str = "", **fields: Any
) -> Object[Subscription]:
    """A subscription with uid `s-<name>`."""
    fields.setdefault("subscriber", Destination(uri=f"http://{name}/"))
    return Object(uid or f"s-{name}", generation, f"h{generation}", Subscription("default", name, to, **fields))


def broker(
    name: str = "main", generation: int = 1, uid: str = "", class_: str = KAFKA_CLASS, **fields: Any
) -> Object[Broker]:
    """A broker with uid `b-<name>`."""
    return Object(uid or f"b-{name}", generation, f"h{generation}", Broker("default", name, class_, **fields))


def trigger(
    name: str = "billing", to: str = "main", generation: int = 1, uid: str = "", **fields: Any
) -> Object[Trigger]:
    """A trigger with uid `t-<name>`."""
    fields.setdefault("subscriber", Destination(uri=f"http://{name}/"))
    return Object(uid or f"t-{name}", generation, f"h{generation}", Trigger("default", name, to, **fields))


def config_map(name: str = "config", **data: str) -> Object[ConfigMap]:
    """A ConfigMap; of its keys, `partitions` stands for `default.topic.partitions`, and so on."""
    prefixed = {f"default.topic.{key.replace('__', '.')}": text for key, text in data.items()}
    return Object(f"m-{name}", 1, "h1", ConfigMap("default", name, prefixed))


def reset(
    name: str = "again", to: str = "earliest", ref: str = "billing", generation: int = 1, **fields: Any
) -> Object[ResetOffset]:
    """A ResetOffset of a Subscription with uid `r-<name>`."""
    position = seek_position(to)
    assert not isinstance(position, Shift)
    fields.setdefault("ref_kind", "Subscription")
    resource = ResetOffset("default", name, position, ref_name=ref, **fields)
    return Object(f"r-{name}", generation, f"h{generation}", resource)


BAD = config_map(partitions="many")


@dataclass
class Kafka:
    """A Kafka and a contract that do at once what they are asked; `groups` with members stay."""

    topics: dict[str, ObservedTopic] = field(default_factory=dict)
    committed: dict[str, set[int]] = field(default_factory=dict)
    groups: dict[str, GroupState] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)  #: group -> committed offsets, for seeks
    fanouts: dict[str, int | None] = field(default_factory=dict)  #: topic -> members of its fan-out
    unknown: dict[str, str] = field(default_factory=dict)  #: group -> why it cannot be observed
    ends: dict[int, int] = field(default_factory=dict)  #: of the partitions of every log; all begin at 0
    world: World = field(default_factory=lambda: World(now=NOW))
    done: list[Action] = field(default_factory=list)
    config: ControllerConfig = CONFIG

    def look(self, *objects: AnyObject, **more: Any) -> World:
        """The world with these objects, as Kafka is now."""
        world = replace(self.world, objects=objects, **more)
        asked = scope_of(world, self.config)
        observed = ObservedKafka(
            topics={name: self.topics[name] for name in asked.topics if name in self.topics},
            committed={
                group: frozenset(self.committed.get(group, ()))
                for group, _ in asked.starts
                if group not in self.unknown
            },
            groups={group: self._state(group) for group in asked.groups},
            offsets={
                group: dict(self.offsets.get(group, {})) for group, _ in asked.offsets if group not in self.unknown
            },
            unknown=dict(self.unknown),
            fanouts={topic: self.fanouts.get(topic, 0) for _, topic in asked.fanouts},
        )
        return replace(world, observed=observed)

    def _state(self, group: str) -> GroupState:
        return GroupState.UNKNOWN if group in self.unknown else self.groups.get(group, GroupState.ABSENT)

    def decide(self, *objects: AnyObject, **more: Any) -> list[Action]:
        """What reconcile says now, without what the service writes together: statuses and creations."""
        decided = reconcile(self.look(*objects, **more), self.config)
        return [action for action in decided if not isinstance(action, RecordCreations | WriteStatus)]

    def record(self, *objects: AnyObject, **more: Any) -> None:
        """Record creations, as the service does before it acts."""
        for action in reconcile(self.look(*objects, **more), self.config):
            if isinstance(action, RecordCreations):
                self.act(action)

    def settle(self, *objects: AnyObject, **more: Any) -> list[Action]:
        """Act until nothing is left to do; what was done."""
        done: list[Action] = []
        for _ in range(20):
            actions = self.decide(*objects, **more)
            self.record(*objects, **more)
            if not actions:
                self.done += done
                return done
            for action in actions:
                self.act(action)
            done += actions
        raise AssertionError(f"it does not come to rest: {done[-5:]}")

    def statuses(self, *objects: AnyObject, **more: Any) -> dict[str, WriteStatus]:
        """By name of the object."""
        decided = reconcile(self.look(*objects, **more), self.config)
        return {action.name: action for action in decided if isinstance(action, WriteStatus)}

    def status(self, subject: AnyObject, *others: AnyObject, **more: Any) -> WriteStatus:
        """The status of the first of these objects."""
        decided = reconcile(self.look(subject, *others, **more), self.config)
        (status,) = (
            action
            for action in decided
            if isinstance(action, WriteStatus) and (action.kind, action.namespace, action.name) == subject.key
        )
        return status

    def act(self, action: Action) -> None:
        """Do as asked."""
        world = self.world
        if isinstance(action, CreateTopic):
            id_ = f"id-{len(self.done)}-{action.topic}"
            self.topics[action.topic] = ObservedTopic(action.partitions, action.replication, dict(action.configs), id_)
        elif isinstance(action, AlterTopicConfig):
            before = self.topics[action.topic]
            kept = {key: text for key, text in before.configs.items() if key not in action.reset}
            self.topics[action.topic] = replace(before, configs={**kept, **dict(action.configs)})
        elif isinstance(action, MakeRoom):
            before = self.topics[action.topic]
            self.topics[action.topic] = replace(before, configs={**before.configs, **dict(action.configs)})
        elif isinstance(action, AddPartitions):
            self.topics[action.topic] = replace(self.topics[action.topic], partitions=action.partitions)
        elif isinstance(action, DeleteTopic):
            del self.topics[action.topic]
        elif isinstance(action, CommitStart):
            self.committed.setdefault(action.group, set()).update(action.partitions)
            self.groups[action.group] = GroupState.EMPTY
        elif isinstance(action, DeleteGroup):
            assert self.groups.pop(action.group) is GroupState.EMPTY
            self.committed.pop(action.group, None)
        elif isinstance(action, RememberSeek):
            self.world = replace(world, seeks={**world.seeks, action.seek.id: action.seek})
        elif isinstance(action, ForgetSeek):
            self.world = replace(world, seeks={id_: entry for id_, entry in world.seeks.items() if id_ != action.id})
        elif isinstance(action, FindOffsets):
            moves = tuple(self._move(action, partition) for partition in range(action.partitions))
            seek = replace(in_phase(action.seek, SeekPhase.MOVING, world.now), moves=moves)
            self.world = replace(world, seeks={**world.seeks, seek.id: seek})
        elif isinstance(action, MoveOffsets):
            self.offsets.setdefault(action.group, {}).update({move.partition: move.new for move in action.moves})
            self.world = replace(world, moved=world.moved | {action.group})
        else:
            self.world = _publish(world, action)

    def _move(self, action: FindOffsets, partition: int) -> Move:
        old, end = self.offsets.get(action.seek.group, {}).get(partition, -1), self.ends.get(partition, 0)
        to = seek_position(action.seek.to)
        if isinstance(to, Shift):
            return Move(partition, old, shifted(to, old, 0, end))
        return Move(partition, old, 0 if to is Start.EARLIEST else end)


def kafka_with_ingress(**topics: ObservedTopic) -> Kafka:
    """A Kafka whose installation has an ingress, so that brokers have addresses."""
    return Kafka(dict(topics), config=replace(CONFIG, ingress_url=INGRESS, kafka={"bootstrap.servers": "k:9092"}))


def settled_kafka(*objects: AnyObject) -> Kafka:
    """The same, with these objects served; without any, a broker with a trigger."""
    kafka = kafka_with_ingress()
    kafka.settle(*(objects or (broker(), trigger())))
    return kafka


def _publish(world: World, action: Action) -> World:
    if isinstance(action, PublishChannel):
        return replace(world, channels={**world.channels, action.channel.uid: action.channel})
    if isinstance(action, PublishSubscription):
        record = action.subscription
        return replace(world, subscriptions={**world.subscriptions, record.uid: record})
    if isinstance(action, Retract):
        return replace(
            world,
            channels={uid: entry for uid, entry in world.channels.items() if uid != action.uid},
            subscriptions={uid: entry for uid, entry in world.subscriptions.items() if uid != action.uid},
        )
    if isinstance(action, Remember):
        return replace(world, removals={**world.removals, action.removal.uid: action.removal})
    if isinstance(action, RecordCreations):
        return replace(world, creations={creation.uid: creation for creation in action.creations})
    assert isinstance(action, Forget | CancelRemoval), action
    return replace(world, removals={uid: removal for uid, removal in world.removals.items() if uid != action.uid})


def names_of(actions: Sequence[Action]) -> list[str]:
    """Kinds of action in order."""
    return [type(action).__name__ for action in actions]


def condition(status: WriteStatus, type_: str = "Ready") -> tuple[ConditionStatus, str]:
    """(status, reason) of one condition."""
    part = next(part for part in status.conditions if part.type == type_)
    return part.status, part.reason


def message(status: WriteStatus, type_: str = "Ready") -> str:
    """The sentence of one condition."""
    return next(part.message for part in status.conditions if part.type == type_)


def serving(*subscriptions: records.Subscription, time: float = NOW) -> dict[str, records.WorkerStatus]:
    """One worker that owns every partition of these."""
    rows = {
        object_.uid: records.WorkerSubscription(
            object_.generation, tuple(range(object_.partitions)), records.WorkerState.RUNNING
        )
        for object_ in subscriptions
    }
    return {"w": records.WorkerStatus("w", time, "all", rows)}
