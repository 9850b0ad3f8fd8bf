"""Commits the start offsets of a subscription for its group, before the group has members, and reads them back.

    list offsets (earliest, latest, of a time) -> commit -> check each partition's own error -> read back -> equal? done

The call as a whole can succeed although every partition has an error (the coordinator of a new broker is still loading,
the group has a member). So each error is checked, temporary ones are retried, and only offsets that were read back
count. Kafka rejects the commit if the group has members. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

from knative.contract.seeks import Move
from knative.resources.seek_position import SeekPosition, Shift, shifted
from knative.resources.values import Start, StartPosition, StartTime
from tables.kafka.admin.answers import TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaNotYet

T = TypeVar("T")

_PASSING = (KafkaNotYet, KafkaNotFound)  # not found: a topic that was just created is not known everywhere yet
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Offsets:
    """Committed offsets of groups, with retries for `limit_s`. Raises KafkaFailed."""

    def __init__(self, admin: KafkaAdmin, limit_s: float) -> None:
        self._admin = admin
        self._limit_s = limit_s

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Returns the committed offset of each partition that has one."""
        where = [(topic, partition) for partition in partitions]
        offsets = self._with_retries(lambda: self._admin.groups.committed(group, where))
        return {partition: group_offset.offset for (_, partition), group_offset in offsets.items()}

    def committed_by(
        self, groups: Mapping[str, tuple[str, Iterable[int]]], on_error: Callable[[str, KafkaFailed], None]
    ) -> dict[str, dict[int, int]]:
        """Returns the committed offsets of several groups, asked at once: group -> partition -> offset. `groups`: group
        -> its topic and the partitions."""
        left = {group: [(topic, number) for number in numbers] for group, (topic, numbers) in groups.items()}
        offsets: dict[str, dict[int, int]] = {}
        problems: dict[str, KafkaFailed] = {}

        def ask() -> None:
            for group, answer in self._admin.groups.committed_or_why(left).items():
                if isinstance(answer, KafkaFailed):
                    problems[group] = answer
                    if isinstance(answer, _PASSING):
                        continue
                else:
                    problems.pop(group, None)
                    offsets[group] = {number: group_offset.offset for (_, number), group_offset in answer.items()}
                del left[group]
            for group in left:
                raise problems[group]

        try:
            self._with_retries(ask)
        except _PASSING:
            if left.keys() - problems.keys():  # nothing was answered about these
                raise
        for group, problem in problems.items():
            on_error(group, problem)
        return offsets

    def commit_start(self, group: str, topic: str, partitions: Sequence[int], start: StartPosition) -> None:
        """Commit the start offset of these partitions and read it back."""
        where = [(topic, partition) for partition in partitions]
        wish = self._with_retries(lambda: self._look_up(where, start))
        self._with_retries(lambda: self._admin.groups.commit(group, wish))
        stored = self.committed(group, topic, partitions)
        wished = {partition: offset for (_, partition), offset in wish.items()}
        if stored != wished:
            raise KafkaFailed(
                f"committing the start of group {group}: read back {stored} after committing {wished}; "
                "check whether another client uses the group"
            )

    def moves(self, group: str, topic: str, partitions: int, to: SeekPosition) -> tuple[Move, ...]:
        """Returns the old and the new offset of each partition. Nothing is committed."""
        where = [(topic, partition) for partition in range(partitions)]
        old = self.committed(group, topic, range(partitions))
        if isinstance(to, Shift):
            low = self._with_retries(lambda: self._admin.first_offsets(where))
            high = self._with_retries(lambda: self._admin.end_offsets(where))
            new = {place: shifted(to, old.get(place[1], -1), low[place], high[place]) for place in where}
        else:
            new = self._with_retries(lambda: self._look_up(where, to))
        return tuple(Move(place[1], old.get(place[1], -1), new[place]) for place in where)

    def move(self, group: str, topic: str, moves: Iterable[Move]) -> None:
        """Commit the new offsets, without metadata: what was settled above the old ones is forgotten."""
        wish = {(topic, move.partition): move.new for move in moves}
        self._with_retries(lambda: self._admin.groups.commit(group, wish))

    def _look_up(self, where: Sequence[TopicAndPartition], start: StartPosition) -> dict[TopicAndPartition, int]:
        if not isinstance(start, StartTime):
            return (self._admin.first_offsets if start is Start.EARLIEST else self._admin.end_offsets)(where)
        offsets = self._admin.offsets_at(where, max(0, start.unix_ms))  # Kafka takes -1 for the end of the log
        # There is none for a time after the last record: such a subscription starts with the next one.
        return offsets | self._admin.end_offsets(place for place, offset in offsets.items() if offset < 0)

    def _with_retries(self, call: Callable[[], T]) -> T:
        """Call again, with pauses, while the error is temporary and the time limit is not reached."""
        retrying = Retrying(
            retry=retry_if_exception_type(_PASSING),
            stop=stop_before_delay(self._limit_s),
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
            reraise=True,
        )
        return retrying(call)
