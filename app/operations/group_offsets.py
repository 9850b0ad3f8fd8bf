"""Reads the offsets of subscriptions from Kafka: committed offsets with metadata, log starts and ends, timestamps.

Joins no group and commits nothing. `app/operations/lag` computes the lag from them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from agents.offsets.offset_metadata import NO_METADATA, read
from app.operations.lag import GroupOffset, Lag, by_lag, events_behind, lag_of
from knative.contract.records import Subscription
from knative.errors import NotReadyError
from tables.kafka.admin.answers import GroupOffset as Committed
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotYet, KafkaUnavailable
from tables.timing import ANSWER_S, POLL_S

RecordPosition = tuple[str, int, int]  #: topic, partition, offset


def measure(
    client: Mapping[str, Any], subscriptions: Sequence[Subscription], now_s: float, admin: KafkaAdmin | None = None
) -> list[Lag]:
    """Returns the lag of every partition of these subscriptions, the furthest behind first. `admin`: for those who
    measure again and again. Raises NotReadyError when Kafka does not answer."""
    positions = read_group_offsets(client, subscriptions, admin)
    oldest = timestamps(client, (position.place for position in positions if events_behind(position)))
    return by_lag(lag_of(position, oldest.get(position.place), now_s) for position in positions)


def read_group_offsets(
    kafka: Mapping[str, Any], subscriptions: Sequence[Subscription], admin: KafkaAdmin | None = None
) -> list[GroupOffset]:
    """Returns one value for each subscription and partition. Raises NotReadyError when Kafka does not answer."""
    if not subscriptions:
        return []
    admin = admin or KafkaAdmin(kafka, ANSWER_S)
    partitions = sorted(
        {(subscription.topic, number) for subscription in subscriptions for number in range(subscription.partitions)}
    )
    try:
        # The log ends come last: commits in between make the lag slightly too large. The other order can make it
        # negative.
        partitions_by_group = {
            subscription.group: [(subscription.topic, number) for number in range(subscription.partitions)]
            for subscription in subscriptions
        }
        committed = admin.groups.committed_by(partitions_by_group, _left_out)
        starts = admin.first_offsets(partitions, _left_out)
        ends = admin.end_offsets(partitions, _left_out)
    except KafkaFailed as problem:
        raise NotReadyError(
            f"Kafka at {admin.bootstrap} did not return the offsets of the subscriptions ({problem.why}).", "Try again."
        ) from problem
    return [
        _position(
            subscription,
            number,
            committed[subscription.group].get((subscription.topic, number)),
            starts[partition],
            ends[partition],
        )
        for subscription in subscriptions
        for number in range(subscription.partitions)
        if (partition := (subscription.topic, number)) in starts and partition in ends
    ]


def _left_out(_: object, problem: KafkaFailed) -> None:
    """A partition that does not exist (any more), or that must not be read, is left out; a Kafka that does not answer
    is an error."""
    if isinstance(problem, (KafkaUnavailable, KafkaNotYet)):
        raise problem


def _position(
    subscription: Subscription, number: int, committed: Committed | None, start: int, end: int
) -> GroupOffset:
    offset = committed.offset if committed is not None else None
    metadata = NO_METADATA if committed is None else read(committed.offset, committed.metadata)
    channel = f"{subscription.namespace}/{subscription.unique_channel}"
    return GroupOffset(
        subscription=subscription.label,
        channel=channel,
        group=subscription.group,
        topic=subscription.topic,
        partition=number,
        committed=offset,
        start=start,
        end=end,
        settled=metadata.settled,
        attempts=metadata.attempts,
    )


def timestamps(
    kafka: Mapping[str, Any], positions: Iterable[RecordPosition], limit_s: float = ANSWER_S
) -> dict[RecordPosition, int]:
    """Returns the timestamp in ms of the first record at or after each position, without those not read in time."""
    unread = sorted(set(positions))
    times_ms: dict[RecordPosition, int] = {}
    if not unread:
        return times_ms
    consumer = Consumer(
        {
            "group.id": "penstock-reader",  # required by the client; joins no group, commits nothing
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 256,
            "max.partition.fetch.bytes": 16_384,  # enough for one record, which Kafka sends even if it is larger
            "log_level": 0,
            **kafka,
        }
    )
    end_s = time.monotonic() + limit_s
    try:
        while unread and time.monotonic() < end_s:
            # A consumer reads a partition from one offset at a time, and the subscriptions of a channel have different
            # ones: so read one position of each partition in each round.
            now, later = {}, []
            for position in unread:
                if position[:2] in now:
                    later.append(position)
                else:
                    now[position[:2]] = position
            times_ms.update(_first(consumer, now, end_s))
            unread = later
    finally:
        consumer.close()
    return times_ms


def _first(
    consumer: Consumer, positions: Mapping[tuple[str, int], RecordPosition], end_s: float
) -> dict[RecordPosition, int]:
    consumer.assign([TopicPartition(*position) for position in positions.values()])
    times_ms: dict[RecordPosition, int] = {}
    while len(times_ms) < len(positions) and time.monotonic() < end_s:
        for message in consumer.consume(len(positions), POLL_S):
            position = positions.get((message.topic() or "", message.partition() or 0))
            if message.error() is None and position is not None and position not in times_ms:
                times_ms[position] = message.timestamp()[1]
    consumer.unassign()
    return times_ms
