"""Topics of the example: made, listed, measured. One that is created again under its name has another id."""

from __future__ import annotations

import hashlib
import time

from knative.errors import PenstockError
from tables.kafka.admin.answers import TopicInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaNotFound, leave_out
from tables.timing import ANSWER_S, POLL_S


def group_of(role: str, *topics: TopicInfo) -> str:
    """Returns the consumer group of a role, and the prefix of its table's changelog. It has the topics' ids, so that
    offsets and totals of a deleted topic never count for a new one."""
    ids = (hashlib.sha256(topic.id.encode()).hexdigest()[:8] for topic in topics)
    return "-".join(("census", role, *ids))


def describe(admin: KafkaAdmin, name: str) -> TopicInfo:
    """Returns the topic. Raises PenstockError if it does not exist."""
    try:
        return admin.describe_topics([name])[name]
    except KafkaNotFound as problem:
        raise PenstockError(f"There is no topic {name}.", "`read` creates the topic compute.") from problem


def ensure(admin: KafkaAdmin, name: str, partitions: int, replicas: int) -> TopicInfo:
    """Returns the topic, created without a time limit for its records if it did not exist. Raises PenstockError."""
    if name not in admin.probe().topics:
        admin.create_topic(name, partitions, replicas, {"retention.ms": "-1"})
    end_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return describe(admin, name)
        except PenstockError:  # created, but not every broker knows it yet
            if time.monotonic() > end_s:
                raise
        time.sleep(POLL_S)


def names(admin: KafkaAdmin) -> list[str]:
    """Returns all topics except Kafka's own."""
    return sorted(name for name in admin.probe().topics if not name.startswith("__"))


def leaders(admin: KafkaAdmin) -> list[dict[str, object]]:
    """Returns each partition of each topic, with the broker that leads it."""
    return [
        {"topic": topic.name, "partition": partition, "leader": leader}
        for topic in admin.describe_topics(names(admin), leave_out(KafkaNotFound)).values()
        for partition, leader in zip(topic.partitions, topic.leaders, strict=True)
    ]


def offsets(admin: KafkaAdmin, name: str) -> list[dict[str, object]]:
    """Returns each partition of the topic, once for each group that has committed there, or once without a group."""
    places = [(name, number) for number in describe(admin, name).partitions]
    committed = admin.groups.committed_by(dict.fromkeys(admin.group_ids()))
    groups = {group: offsets for group, offsets in committed.items() if not offsets.keys().isdisjoint(places)}
    ends, rows = admin.end_offsets(places), list[dict[str, object]]()
    for group, offsets in (groups or {"": {}}).items():
        for place in places:
            at = offsets[place].offset if place in offsets else None
            rows.append(
                {"topic": name, "partition": place[1], "committed": at, "last": ends[place], "group": group or None}
            )
    return rows


def remove(admin: KafkaAdmin, doomed: list[str]) -> list[str]:
    """Remove topics, and the changelogs of the totals that were made from them; returns all of these. Raises
    PenstockError."""
    present = names(admin)
    doomed = [name for name in doomed if name in present]
    begin = tuple(f"{group_of('results', describe(admin, name))}-" for name in doomed)
    doomed += [name for name in present if begin and name.startswith(begin)]
    for problem in admin.delete_topics(doomed).values():
        raise problem
    return doomed
