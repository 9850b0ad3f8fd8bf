"""Compares topics with what Penstock creates and needs. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.operations.contract_snapshot import Contract
from app.operations.doctor.check import Answer, Level, ok, some
from app.operations.plural import count
from controller.config import ControllerConfig
from controller.kafka.internal_topics import AUDIT, CHANGELOG, INTERNAL, traffic_configs
from controller.plan.channels import dlq_configs, topic_configs
from controller.plan.specs import ChannelSpec
from knative.contract import kafka_names
from knative.contract.records import Channel

IN_SYNC = "min.insync.replicas"
_BYTES = "max.message.bytes"
_POLICY = "cleanup.policy"
_FASTER = ("min.cleanable.dirty.ratio", "segment.ms", "segment.bytes")
_SLOWER = "starts and commands then take longer to read the topic"
_KEPT_MS = ("retention.ms", "delete.retention.ms")
_WORKER_MAKES_IT = "start a worker of role all or controller, which creates it"
_CONTROLLER_MAKES_IT = "a controller creates it again, without its events; see `penstock status`"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it is."""

    partitions: int
    replicas: int  #: the fewest of its partitions
    in_sync: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic as it should be. `partitions` 0 = any number."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    at_least: Mapping[str, int] = field(default_factory=dict)  #: configs that may be higher
    optional: bool = False  #: it is created when it is needed
    if_missing: str = _WORKER_MAKES_IT


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that should exist, and the facts about those that do. `laptop`: all of Kafka is on this machine, so
    more replicas would not help."""

    expected: Sequence[WantedTopic]
    existing: Mapping[str, TopicFacts]
    laptop: bool = False


def wanted_topics(
    config: ControllerConfig, contract: Contract | None, traffic: bool, traffic_retention_s: float
) -> list[WantedTopic]:
    """Returns all topics of the installation. `contract` None: only those that every installation has."""
    instance = config.instance
    topics = [
        WantedTopic(config.contract_topic, 1, INTERNAL),
        WantedTopic(kafka_names.status_topic(instance), 1, INTERNAL),
        WantedTopic(kafka_names.redriven_topic(instance), 1, INTERNAL, optional=True),
        WantedTopic(kafka_names.audit_topic(instance), 1, AUDIT, optional=True),
    ]
    if traffic:
        topics.append(WantedTopic(kafka_names.traffic_topic(instance), 1, traffic_configs(traffic_retention_s)))
        topics.append(WantedTopic(kafka_names.windows_changelog_topic(instance), 1, CHANGELOG))
    for channel in contract.channels if contract is not None else ():
        topics += _of_channel(channel, config)
    return topics


def _of_channel(channel: Channel, config: ControllerConfig) -> list[WantedTopic]:
    # The contract has no retention: the controller keeps that, and says when it cannot.
    spec = ChannelSpec(channel.kind, channel.namespace, channel.name, channel.topic, channel.partitions, 1, 0.0)
    configs = {key: value for key, value in topic_configs(spec, config) if key not in channel.config_keys}
    dlq = dict(dlq_configs(config))
    policy = {} if channel.external or _POLICY not in configs else {_POLICY: configs[_POLICY]}
    room = {_BYTES: int(configs[_BYTES])} if _BYTES in configs else {}
    kept = {key: value for key, value in dlq.items() if key != _BYTES}
    missing = "create the topic, or correct the Broker: Penstock does not create this topic" if channel.external else ""
    missing = missing or _CONTROLLER_MAKES_IT
    return [
        WantedTopic(channel.topic, channel.partitions, policy, room, if_missing=missing),
        WantedTopic(channel.dlq_topic, 0, kept, {_BYTES: int(dlq[_BYTES])}, if_missing=_CONTROLLER_MAKES_IT),
    ]


def differences(topics: Topics) -> list[Answer]:
    """Returns one answer for each kind of difference, with the topics that have it."""
    groups: dict[tuple[Level, str, str], list[str]] = defaultdict(list)
    present = 0
    for topic in topics.expected:
        facts = topics.existing.get(topic.name)
        if facts is None:
            if not topic.optional:
                groups[Level.PROBLEM, "not in Kafka", topic.if_missing].append(topic.name)
            continue
        present += 1
        for difference in _differences(topic, facts, topics.laptop):
            groups[difference].append(topic.name)
    answers = [Answer(level, f"{some(sorted(names))}: {what}", hint) for (level, what, hint), names in groups.items()]
    if not any(answer.level is Level.PROBLEM for answer in answers):
        replicas = ", one replica each" if topics.laptop and present else ""
        answers.insert(0, ok(f"{count(present, 'topic')} as Penstock creates them{replicas}"))
    return answers


def _differences(topic: WantedTopic, facts: TopicFacts, laptop: bool) -> Iterable[tuple[Level, str, str]]:
    if topic.partitions and facts.partitions != topic.partitions:
        what = f"{count(facts.partitions, 'partition')}, where Penstock expects {topic.partitions}"
        more = topic.at_least and facts.partitions > topic.partitions
        hint = "a controller publishes it within a minute" if more else "see `penstock status`"
        yield (Level.WARNING if more else Level.PROBLEM), what, hint
    for key, value in topic.configs.items():
        value_now = facts.configs.get(key, value)
        if value_now == value or (key in _KEPT_MS and _time_ms(value_now) >= _time_ms(value)):
            continue
        level = Level.PROBLEM if key == _POLICY else Level.WARNING
        if key in _FASTER:
            yield level, f"{key} is {value_now} instead of {value}", f"{_set(key, value)}, or leave it: {_SLOWER}"
            continue
        # With the policy `delete`, Kafka deletes what is older than retention.ms at once: never advise to set it.
        hint = "see `penstock status`" if (key, value) == (_POLICY, "delete") else _set(key, value)
        yield level, f"{key} is {value_now} instead of {value}", hint
    for key, least in topic.at_least.items():
        if int(facts.configs.get(key, least)) < least:
            what = f"{key} is {facts.configs[key]}, so Kafka refuses some events that ingress accepts"
            yield Level.PROBLEM, what, f"{_set(key, str(least))}, or lower PENSTOCK_EVENT_BYTES_MAX"
    least = int(facts.configs.get(IN_SYNC, "1"))
    if facts.in_sync < least:
        what = f"in sync: {count(facts.in_sync, 'replica')}; {IN_SYNC} is {least}, so Kafka stores nothing"
        yield (
            Level.PROBLEM,
            what,
            f"start the other brokers again; with {count(facts.replicas, 'replica')} {IN_SYNC} may be lower",
        )
    if laptop:
        return
    if facts.replicas == 1:
        hint = (
            "set PENSTOCK_INTERNAL_REPLICATION and replicationFactor of channels to 3 for new topics; raise existing "
            "ones with kafka-reassign-partitions.sh"
        )
        yield Level.WARNING, "one replica: if its broker is lost, so are the events", hint
    elif least == 1 and facts.replicas > 2:  # with two, one broker that is away would stop all writes
        hint = _set(IN_SYNC, "2")
        yield Level.WARNING, f"{IN_SYNC} is 1: an event that was accepted may be on one broker only", hint


def _time_ms(value: str) -> float:
    return math.inf if value == "-1" else float(value)


def _set(key: str, value: str) -> str:
    return f"kafka-configs.sh --alter --entity-type topics --entity-name TOPIC --add-config {key}={value}"
