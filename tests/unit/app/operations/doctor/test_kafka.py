"""What the facts about Kafka and its topics mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.operations.contract_snapshot import Contract
from app.operations.doctor.kafka import ClockReading, KafkaFacts, on_this_machine
from app.operations.doctor.table import Facts
from app.operations.doctor.topics import TopicFacts, Topics, WantedTopic, wanted_topics
from controller.config import ControllerConfig
from knative.contract.records import BROKER, Channel
from tests.unit.app.operations.doctor.rows import rows

GOOD = KafkaFacts("k:9092", brokers=3, release="4.1", clock=(ClockReading(99.0, 100.0), ClockReading(100.2, 100.25)))


@pytest.mark.parametrize(
    ("facts", "protocol", "levels", "says", "hint"),
    [
        (GOOD, "classic", ["ok", "ok"], "Kafka 4.1 at k:9092, 3 brokers", ""),
        (replace(GOOD, release=None), "classic", ["ok", "ok"], "Kafka of an unknown release", ""),
        (replace(GOOD, brokers=1), "classic", ["ok", "ok"], "k:9092, 1 broker", ""),
        (replace(GOOD, release="3.9"), "consumer", ["problem", "ok"], "no group protocol `consumer`",
         "set PENSTOCK_GROUP_PROTOCOL=classic, or use Kafka 4.0 or newer"),
        (GOOD, "consumer", ["ok", "ok"], "Kafka 4.1", ""),
        (replace(GOOD, creates_topics=False), "classic", ["ok", "ok"], "Kafka 4.1", ""),
        (replace(GOOD, creates_topics=True), "classic", ["ok", "warning", "ok"], "Kafka 4.1", ""),
    ],
)  # fmt: skip
def test_kafka_has_its_level_and_hint(
    facts: KafkaFacts, protocol: str, levels: list[str], says: str, hint: str
) -> None:
    lines = rows(Facts(kafka=replace(facts, group_protocol=protocol)))
    assert [row.level for row in lines] == levels
    assert says in lines[0].text
    assert lines[0].hint == hint


@pytest.mark.parametrize(
    ("readings", "level", "says"),
    [
        ([], "skipped", "nothing could be committed"),
        ([(90.0, 100.0), (90.0, 101.0)], "skipped", "nothing could be committed"),
        ([(90.0, 100.0), (100.5, 100.5)], "ok", "within 2 s"),
        ([(90.0, 100.0), (95.0, 100.5)], "warning", "5.2 s behind"),
        ([(90.0, 100.0), (80.0, 100.5), (85.0, 101.0)], "problem", "15.8 s behind"),
        ([(105.0, 100.0)], "warning", "5.0 s ahead of"),
        ([(3700.0, 100.0)], "problem", "3600.0 s ahead of"),
    ],
)
def test_clock_of_kafka_may_differ_a_little(readings: list[tuple[float, float]], level: str, says: str) -> None:
    facts = KafkaFacts("k:9092", clock=[ClockReading(*reading) for reading in readings])
    (row,) = [row for row in rows(Facts(kafka=facts)) if row.name == "clock of Kafka"]
    assert row.level == level
    assert says in row.text
    assert row.hint.startswith("synchronize both clocks, as with NTP" if level in ("warning", "problem") else "")


@pytest.mark.parametrize(
    ("bootstrap", "here"),
    [
        ("127.0.0.1:9092", True),
        ("localhost:9092", True),
        ("[::1]:9092,127.0.0.2:9092", True),
        ("127.0.0.1:9092,kafka:9092", False),
        ("10.0.0.1:9092", False),
    ],
)
def test_kafka_on_this_machine(bootstrap: str, here: bool) -> None:
    assert on_this_machine(bootstrap) is here


COMPACTED = WantedTopic("p.contract", 1, {"cleanup.policy": "compact", "segment.ms": "3600000"})
EVENTS = WantedTopic("t", 3, {"cleanup.policy": "delete"}, {"max.message.bytes": 1000}, if_missing="look")
LETTERS = WantedTopic("t.dlq", 0, {"retention.ms": "60000"})
SAFE = {"min.insync.replicas": "2"}


def _topic(partitions: int = 1, replicas: int = 3, in_sync: int = 3, **configs: str) -> TopicFacts:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return TopicFacts(partitions, replicas, in_sync, {**SAFE, **named})


def _set(config: str) -> str:
    return f"kafka-configs.sh --alter --entity-type topics --entity-name TOPIC --add-config {config}"


@pytest.mark.parametrize(
    ("topic", "facts", "level", "says", "hint"),
    [
        (COMPACTED, None, "problem", "not in Kafka", "start a worker of role all or controller"),
        (COMPACTED, _topic(cleanup_policy="delete"), "problem", "is delete instead of compact",
         _set("cleanup.policy=compact")),
        (COMPACTED, _topic(segment_ms="1"), "warning", "segment.ms is 1 instead of", _set("segment.ms=3600000")),
        (COMPACTED, _topic(2), "problem", "2 partitions, where Penstock expects 1", "see `penstock status`"),
        (COMPACTED, _topic(in_sync=1), "problem", "in sync: 1 replica; min.insync.replicas is 2", "start the other"),
        (COMPACTED, _topic(replicas=1, in_sync=1, min_insync_replicas="1"), "warning", "one replica",
         "set PENSTOCK_INTERNAL_REPLICATION"),
        (COMPACTED, _topic(min_insync_replicas="1"), "warning", "on one broker only", _set("min.insync.replicas=2")),
        (COMPACTED, _topic(replicas=2, in_sync=2, min_insync_replicas="1"), "ok", "1 topic as", ""),
        (COMPACTED, _topic(cleanup_policy="compact"), "ok", "1 topic as", ""),
        (EVENTS, _topic(3, cleanup_policy="compact"), "problem", "is compact instead", "see `penstock status`"),
        (EVENTS, _topic(3, max_message_bytes="999"), "problem", "refuses some events", _set("max.message.bytes=1000")),
        (EVENTS, _topic(3, max_message_bytes="1001"), "ok", "1 topic as", ""),
        (EVENTS, _topic(2), "problem", "2 partitions, where", "see `penstock status`"),
        (EVENTS, _topic(4), "warning", "4 partitions, where", "a controller publishes it within a minute"),
        (replace(COMPACTED, optional=True), None, "ok", "0 topics as", ""),
        (LETTERS, _topic(retention_ms="59999"), "warning", "retention.ms is 59999 instead of 60000",
         _set("retention.ms=60000")),
        (LETTERS, _topic(retention_ms="60001"), "ok", "1 topic as", ""),
        (LETTERS, _topic(retention_ms="-1"), "ok", "1 topic as", ""),
        (replace(LETTERS, configs={"retention.ms": "-1"}), _topic(retention_ms="60000"), "warning", "instead of -1",
         _set("retention.ms=-1")),
        (replace(LETTERS, configs={"delete.retention.ms": "5"}), _topic(delete_retention_ms="6"), "ok", "1 topic", ""),
    ],
)  # fmt: skip
def test_topic_has_its_level_and_hint(
    topic: WantedTopic, facts: TopicFacts | None, level: str, says: str, hint: str
) -> None:
    lines = rows(Facts(topics=Topics([topic], {} if facts is None else {topic.name: facts})))
    (worst,) = [finding for finding in lines if finding.level == level]
    assert says in worst.text
    assert worst.hint.startswith(hint)
    assert bool(worst.hint) == bool(hint)
    assert all(finding.level in (level, "ok") for finding in lines)


def test_one_replica_is_enough_on_a_laptop() -> None:
    (row,) = rows(Facts(topics=Topics([COMPACTED], {"p.contract": TopicFacts(1, 1, 1, {})}, laptop=True)))
    assert (row.level, row.text) == ("ok", "1 topic as Penstock creates them, one replica each")


def test_topics_with_the_same_difference_are_one_line() -> None:
    topics = [replace(EVENTS, name=f"t{number}") for number in range(5)]
    (row,) = rows(Facts(topics=Topics(topics, {})))
    assert row.text == "t0, t1, t2 and 2 more: not in Kafka"


def test_topics_follow_from_the_settings_and_the_contract() -> None:
    config = ControllerConfig({}, Path(), Path(), event_bytes_max=1_000_000, dlq_retention_s=60)
    every: dict[str, Any] = {"namespace": "ns", "topic": "t", "dlq_topic": "t.dlq", "partitions": 3}
    channel = Channel("c", 1, name="ch", **every)
    names = [topic.name for topic in wanted_topics(config, None, True, 60)]
    assert names == [
        "penstock.contract", "penstock.status", "penstock.redriven", "penstock.audit", "penstock.traffic",
        "penstock.windows-traffic-changelog",
    ]  # fmt: skip
    *_, events, letters = wanted_topics(config, Contract((channel,), (), ()), False, 60)
    assert (events.partitions, dict(events.configs)) == (3, {"cleanup.policy": "delete"})
    assert dict(events.at_least) == {"max.message.bytes": 1_000_000 + 256 * 1024}
    assert dict(letters.configs) == {"cleanup.policy": "delete", "retention.ms": "60000"}
    assert dict(letters.at_least) == {"max.message.bytes": 1_000_000 + 512 * 1024}
    external = Channel("b", 1, name="b", kind=BROKER, external=True, **every)
    chosen = Channel("b", 1, name="b", kind=BROKER, config_keys=("max.message.bytes", "cleanup.policy"), **every)
    assert wanted_topics(config, Contract((external,), (), ()), False, 60)[-2].configs == {}
    assert wanted_topics(config, Contract((chosen,), (), ()), False, 60)[-2].at_least == {}
