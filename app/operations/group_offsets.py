"""Reads the offsets of subscriptions from Kafka: committed offsets with metadata, log starts and ends, timestamps.

Joins no group and commits nothing. `app/operations/lag` computes the lag from them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from agents.ordering.offset_metadata import NO_METADATA, read
from app.operations.lag import GroupOffset
from knative.contract.records import Subscription
from knative.errors import NotReadyError

T = TypeVar("T")
Place = tuple[str, int, int]  #: topic, partition, offset

_ASK_LIMIT_S = 10.0
_POLL_S = 0.1


def read_group_offsets(kafka: Mapping[str, Any], subscriptions: Sequence[Subscription]) -> list[GroupOffset]:
    """One value for each subscription and partition. Raises NotReadyError when Kafka does not answer."""
    if not subscriptions:
        return []
    admin = AdminClient({"log_level": 0, **kafka})
    places = sorted({(one.topic, number) for one in subscriptions for number in range(one.partitions)})
    # The log ends come last: commits in between make the lag slightly too large. The other order can make it negative.
    committed = {one.uid: _committed(admin, one) for one in subscriptions}
    found = {uid: _answer(future, kafka).topic_partitions or [] for uid, future in committed.items()}
    starts = _offsets(admin, places, OffsetSpec.earliest(), kafka)
    ends = _offsets(admin, places, OffsetSpec.latest(), kafka)
    positions = []
    for one in subscriptions:
        offsets = {each.partition: each for each in found[one.uid]}
        for number in range(one.partitions):
            place = (one.topic, number)
            if place in starts and place in ends:
                positions.append(_position(one, number, offsets.get(number), starts[place], ends[place]))
    return positions


def _committed(admin: AdminClient, one: Subscription) -> Future[ConsumerGroupTopicPartitions]:
    partitions = [TopicPartition(one.topic, number) for number in range(one.partitions)]
    request = [ConsumerGroupTopicPartitions(one.group, partitions)]
    return admin.list_consumer_group_offsets(request, request_timeout=_ASK_LIMIT_S)[one.group]


def _offsets(
    admin: AdminClient, places: Sequence[tuple[str, int]], spec: OffsetSpec, kafka: Mapping[str, Any]
) -> dict[tuple[str, int], int]:
    """The offset of each place, without partitions that do not exist (any more)."""
    asked = admin.list_offsets({TopicPartition(*place): spec for place in places}, request_timeout=_ASK_LIMIT_S)
    offsets = {}
    for one, future in asked.items():
        try:
            offsets[one.topic, one.partition] = future.result(_ASK_LIMIT_S).offset
        except KafkaException as problem:
            if problem.args[0].retriable() or problem.args[0].code() < 0:
                raise _silent(kafka, problem) from problem
    return offsets


def _answer(future: Future[T], kafka: Mapping[str, Any]) -> T:
    try:
        return future.result(_ASK_LIMIT_S)
    except (KafkaException, TimeoutError) as problem:
        raise _silent(kafka, problem) from problem


def _silent(kafka: Mapping[str, Any], problem: Exception) -> NotReadyError:
    why = problem.args[0].str() if isinstance(problem, KafkaException) else "time limit"
    return NotReadyError(
        f"Kafka at {kafka['bootstrap.servers']} did not return the offsets of the subscriptions ({why}).", "Try again."
    )


def _position(one: Subscription, number: int, committed: TopicPartition | None, start: int, end: int) -> GroupOffset:
    offset = None if committed is None or committed.offset < 0 else committed.offset
    known = NO_METADATA if committed is None or offset is None else read(offset, committed.metadata)
    channel = f"{one.namespace}/{one.channel}"
    return GroupOffset(
        one.label, channel, one.group, one.topic, number, offset, start, end, known.settled, known.attempts
    )


def timestamps(kafka: Mapping[str, Any], places: Iterable[Place], limit_s: float = _ASK_LIMIT_S) -> dict[Place, int]:
    """The timestamp in ms of the first record at or after each place, without those that were not read in time."""
    wanted = sorted(set(places))
    found: dict[Place, int] = {}
    if not wanted:
        return found
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
        while wanted and time.monotonic() < end_s:
            # A consumer reads a partition from one offset at a time, and the subscriptions of a channel have different
            # ones: so read one place of each partition in each round.
            now, later = {}, []
            for place in wanted:
                if place[:2] in now:
                    later.append(place)
                else:
                    now[place[:2]] = place
            found.update(_first(consumer, now, end_s))
            wanted = later
    finally:
        consumer.close()
    return found


def _first(consumer: Consumer, places: Mapping[tuple[str, int], Place], end_s: float) -> dict[Place, int]:
    consumer.assign([TopicPartition(*place) for place in places.values()])
    found: dict[Place, int] = {}
    while len(found) < len(places) and time.monotonic() < end_s:
        for message in consumer.consume(len(places), _POLL_S):
            place = places.get((message.topic() or "", message.partition() or 0))
            if message.error() is None and place is not None and place not in found:
                found[place] = message.timestamp()[1]
    consumer.unassign()
    return found
