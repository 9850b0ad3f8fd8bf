"""What Kafka answers to requests for administration: the cluster, topics, groups and their offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

TopicAndPartition = tuple[str, int]  #: topic, partition


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster and its topics. `id`: "" before Kafka 0.10. `topics`: name -> its partitions. `addresses`:
    `host:port` of each broker. `replicas`: topic name -> replicas of the partition that has the fewest."""

    id: str
    brokers: int
    topics: Mapping[str, Collection[int]]
    addresses: tuple[str, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. `id`: another one when the topic is created again, "" before Kafka 2.8. `replicas`, `in_sync`: how many
    each partition has. `operations`: what the user may do with it, by Kafka's names; empty if it was not asked for.
    `leaders`: host:port of the broker that leads each partition, None where there is none now."""

    name: str
    id: str
    partitions: tuple[int, ...]
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()
    operations: frozenset[str] = frozenset()
    leaders: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group. `state`: Kafka's name for its state, such as Empty or Stable."""

    state: str
    members: int


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group has committed for one partition."""

    offset: int
    metadata: str | None
