"""Commits the start offsets of a subscription for its group, before the group has members, and reads them back.

    list offsets (earliest | latest) -> commit -> check each partition's own error -> read back -> equal? done

The call as a whole can succeed although every partition has an error (the coordinator of a new broker is still loading,
the group has a member). So each error is checked, temporary ones are retried, and only offsets that were read back
count. Kafka rejects the commit if the group has members. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

from controller.kafka.topics import ActionFailed, explain, outcome
from knative.resources.kinds import Start

T = TypeVar("T")

_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # of a topic that was just created
    }
)
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Offsets:
    """Administration of committed offsets over one AdminClient."""

    def __init__(self, admin: AdminClient, limit_s: float) -> None:
        self._admin = admin
        self._limit_s = limit_s

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The committed offset of each partition that has one. Raises ActionFailed."""
        asked = [TopicPartition(topic, partition) for partition in partitions]
        if not asked:
            return {}
        what = f"reading the offsets of group {group}"

        def read() -> dict[int, int]:
            request = [ConsumerGroupTopicPartitions(group, asked)]
            future = self._admin.list_consumer_group_offsets(request, request_timeout=self._limit_s)[group]
            result = outcome(future, what, self._limit_s, _PASSING)
            if result is None:
                raise _TryAgain
            _check(result.topic_partitions or [], what)
            return {one.partition: one.offset for one in result.topic_partitions or [] if one.offset >= 0}

        return self._with_retries(read, what)

    def commit_start(self, group: str, topic: str, partitions: Sequence[int], start: Start) -> None:
        """Commit the earliest or latest offset of these partitions and read it back. Raises ActionFailed."""
        what = f"committing the start of group {group}"
        wish = self._with_retries(lambda: self._group_offsets(topic, partitions, start), what)

        def commit() -> None:
            offsets = [TopicPartition(topic, partition, offset) for partition, offset in wish.items()]
            request = [ConsumerGroupTopicPartitions(group, offsets)]
            future = self._admin.alter_consumer_group_offsets(request, request_timeout=self._limit_s)[group]
            result = outcome(future, what, self._limit_s, _PASSING)
            if result is None:
                raise _TryAgain
            _check(result.topic_partitions or [], what)

        self._with_retries(commit, what)
        found = self.committed(group, topic, partitions)
        if found != wish:
            raise ActionFailed(
                f"{what}: read back {found} after committing {wish}; check whether another client uses the group"
            )

    def _group_offsets(self, topic: str, partitions: Sequence[int], start: Start) -> dict[int, int]:
        choose = OffsetSpec.earliest if start is Start.EARLIEST else OffsetSpec.latest
        spec: OffsetSpec = choose()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            {TopicPartition(topic, partition): spec for partition in partitions}, request_timeout=self._limit_s
        )
        positions: dict[int, int] = {}
        for one, future in asked.items():
            found = outcome(future, f"looking up the {start} offset of {topic}", self._limit_s, _PASSING)
            if found is None:
                raise _TryAgain
            positions[one.partition] = found.offset
        return positions

    def _with_retries(self, call: Callable[[], T], what: str) -> T:
        """Call again, with pauses, while the error is temporary and the time limit is not reached."""
        retrying = Retrying(
            retry=retry_if_exception_type(_TryAgain),
            stop=stop_before_delay(self._limit_s),
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
        )
        try:
            return retrying(call)
        except RetryError as problem:
            message = f"{what}: Kafka's coordinator was not ready within {self._limit_s:g} s"
            raise ActionFailed(message) from problem.last_attempt.exception()


class _TryAgain(Exception):
    """A temporary error: the call may succeed in a moment."""


def _check(partitions: Iterable[TopicPartition], what: str) -> None:
    """Check each partition's own error, because the call as a whole does not report them."""
    for one in partitions:
        error = one.error
        if error is None:
            continue
        known = error.args[0] if isinstance(error, KafkaException) else error
        if known.code() in _PASSING:
            raise _TryAgain
        raise explain(f"{what}, partition {one.partition}", known)
