"""Findings about what there is one of: copies of the events, partitions, workers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from analytics.topology.engines.queries import listed
from analytics.topology.model.document import LISTED_MAX, Finding, Severity
from analytics.topology.model.facts import Facts
from analytics.topology.model.inputs import Inputs


def alone(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    """Finds what there is one of, where there could be more. With one broker or worker on purpose, it says nothing."""
    own = sorted(facts.own)
    single = [id_ for id_ in own if inputs.replicas.get(facts.channels[id_].topic) == 1]
    if inputs.brokers > 1 and single:
        yield Finding(
            "one-replica:",
            "one-replica",
            Severity.WARNING,
            f"One broker of {inputs.brokers} has the only copy of the events of {listed(single)}",
            tuple(single[:LISTED_MAX]),
            (f"{len(single)} topics have replication factor 1. While that broker is down, nothing goes through them.",),
            "Add replicas with Kafka's kafka-reassign-partitions. For new topics, set spec.replicationFactor (of a "
            "Broker: default.topic.replication.factor).",
        )
    if inputs.brokers > 1 and inputs.workers == 1:
        yield Finding(
            "one-worker:",
            "one-worker",
            Severity.INFO,
            "One worker does everything",
            (),
            (f"Kafka has {inputs.brokers} brokers. While this worker is down, nothing is accepted or delivered.",),
            "Run a second worker on another machine.",
        )
    served = {consumer.channel for consumer in facts.consumers}
    narrow = [id_ for id_ in own if id_ in served and facts.channels[id_].partitions == 1]
    if inputs.workers > 1 and narrow:
        yield Finding(
            "one-partition:",
            "one-partition",
            Severity.INFO,
            f"One worker of {inputs.workers} delivers all events of {listed(narrow)}",
            tuple(narrow[:LISTED_MAX]),
            (f"{len(narrow)} topics have one partition, which has one owner for each subscription.",),
            "Ignore this if one worker is enough; another worker takes over when it stops. Otherwise raise "
            "spec.numPartitions (of "
            "a Broker: default.topic.partitions). Events with the same key may then change their order once.",
        )
