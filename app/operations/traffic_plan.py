"""Prepares the traffic job: from the contract's channels, the settings and the topics in Kafka to a `TrafficPlan`.

    contract topic --> topics and their channels --\
    Kafka: which topics are there, its id ----------> TrafficPlan --> analytics.traffic.job

Errors show before Spark takes its seconds to start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.operations.contract_snapshot import choose_channel, read_contract
from app.operations.traffic_topics import KafkaTopics
from app.settings import load_settings
from knative.contract.kafka_names import traffic_topic
from knative.contract.records import Channel
from knative.errors import PenstockError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.timing import ANSWER_S

if TYPE_CHECKING:
    from analytics.traffic.frames import Owner
    from analytics.traffic.job import TrafficPlan


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of the job, and notes about what it will not read."""

    traffic: TrafficPlan
    notes: tuple[str, ...]


def traffic_folder(wish: str, *, span: bool) -> str:
    """Returns the folder of the tables: `wish`, or that of the settings. A bounded read has its own beside it."""
    folder, mark, query = load_settings().traffic_dir.partition("?")
    return wish or (f"{folder.rstrip('/')}-span{mark}{query}" if span else f"{folder}{mark}{query}")


def plan_traffic(
    client: Mapping[str, Any],
    folder: str,
    channels: Sequence[str] = (),
    *,
    records: bool = True,
    span: tuple[float | None, float | None] = (None, None),
    say: Callable[[str], None] | None = None,
) -> Plan:
    """Returns a plan for all channels, or for these (NAMESPACE/NAME) only, of this time range (Unix seconds). `say`:
    see `TrafficPlan`.

    Raises NotReadyError when Kafka does not answer, PenstockError when there is nothing to read.
    """
    from analytics.traffic.job import TrafficPlan

    instance = load_settings().instance
    contract = read_contract(client, instance)
    chosen = [choose_channel(contract, wish) for wish in channels] or contract.channels
    cluster, topics = topics_of(client)
    gone = [channel for channel in chosen if channel.topic not in topics]
    if gone and channels:
        raise PenstockError(
            f"Channel {gone[0].namespace}/{gone[0].name} has no topic: {gone[0].topic} is not in Kafka.",
            "A controller creates the topic. See `penstock status`.",
        )
    notes = [
        f"Channel {channel.namespace}/{channel.name} is skipped: there is no topic {channel.topic}." for channel in gone
    ]

    def read(chosen: Sequence[Channel], topics: Collection[str]) -> tuple[dict[str, Owner], str]:
        owners = {
            channel.topic: (channel.namespace, channel.unique_name)
            for channel in chosen
            if channel.topic in topics and records
        }
        return owners, traffic_topic(instance) if traffic_topic(instance) in topics else ""

    owners, deltas = read(chosen, topics)
    if not deltas:
        topic = traffic_topic(instance)
        notes.append(
            f"There is no topic {topic} yet, so there is no data about deliveries. A worker creates the topic."
        )
    if not owners and not deltas:
        raise PenstockError(
            f"There is nothing to read: no channel of the instance {instance} has a topic.",
            "Apply a KafkaChannel, or name another instance: PENSTOCK_INSTANCE.",
        )
    plan = TrafficPlan(
        client,
        owners,
        deltas,
        folder,
        KafkaTopics(client, *span).describe,
        instance,
        cluster,
        since_s=span[0],
        until_s=span[1],
        look=lambda: read(read_contract(client, instance).channels, topics_of(client)[1]),
        channels=frozenset((channel.namespace, channel.unique_name) for channel in chosen) if channels else None,
        say=say,
    )
    return Plan(plan, tuple(notes))


def topics_of(client: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """Returns the cluster id and the names of all topics. Raises NotReadyError."""
    cluster = KafkaAdmin(client, ANSWER_S).cluster()
    return cluster.id, frozenset(cluster.topics)
