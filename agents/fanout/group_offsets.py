"""Reads and commits the offsets of groups without members, as the groups of Triggers are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents.consumer.commits import commit_now
from agents.consumer.start_offsets import log_start
from knative.ports import Observe
from tables.kafka.admin import KafkaAdmin
from tables.kafka.answers import GroupOffset, Place
from tables.kafka.errors import KafkaUnavailable
from tables.kafka.loop_thread import call_in_thread

log = structlog.get_logger(__name__)

_READ_LIMIT_S = 25.0
_ANSWER_LIMIT_S = 60.0  # the client has a limit of its own, which is shorter

#: Group -> partition -> its committed offset and metadata.
Starts = Mapping[str, Mapping[int, GroupOffset]]
#: As `Commits.on_commit`.
OnCommit = Callable[[KafkaError | None, list[TopicPartition]], None]


class GroupOffsets:
    """The offsets of the groups of one process. Event loop only, except `begin_commit`."""

    def __init__(self, admin: KafkaAdmin, observe: Observe) -> None:
        self._admin = admin
        self._observe = observe

    async def read(self, topic: str, groups: Mapping[str, str], numbers: Collection[int]) -> Starts:
        """Group -> partition -> where it starts. `groups`: group -> the label of its Trigger. A group without a
        committed offset starts at the beginning of the log. Raises KafkaFailed."""
        starts: Starts = await self._in_thread(partial(self._read, groups, [(topic, number) for number in numbers]))
        return starts

    async def committed(self, topic: str, group: str, numbers: Collection[int]) -> Mapping[int, GroupOffset]:
        """Partition -> what the group has committed, without those that have nothing. Raises KafkaFailed."""
        places = [(topic, number) for number in numbers]
        found = await self._in_thread(partial(self._admin.committed_by, {group: places}))
        return {number: offset for (_, number), offset in found[group].items()}

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        try:
            return await call_in_thread(work, _READ_LIMIT_S, "group-offsets")
        except TimeoutError as problem:
            raise KafkaUnavailable(f"Kafka did not answer within {_READ_LIMIT_S:g} s") from problem

    def _read(self, groups: Mapping[str, str], places: list[Place]) -> Starts:
        committed = self._admin.committed_by(dict.fromkeys(groups, places))
        missing = {place for place in places if any(place not in found for found in committed.values())}
        low = self._admin.first_offsets(missing) if missing else {}
        high = self._admin.end_offsets(missing) if missing else {}
        result: dict[str, dict[int, GroupOffset]] = {}
        for group, label in groups.items():
            result[group] = {}
            for place in places:
                found = committed[group].get(place)
                if found is None:
                    found = GroupOffset(log_start(label, place[1], low[place], high[place], self._observe), "")
                result[group][place[1]] = found
        return result

    def begin_commit(self, group: str, offsets: list[TopicPartition], done: OnCommit) -> None:
        """Commit; `done` gets the answer, in another thread. Any thread. Raises KafkaException."""
        self._admin.begin_commit(group, offsets, done)

    async def commit_now(
        self, committer: GroupCommitter, wanted: list[TopicPartition], label: str, limit_s: float
    ) -> set[int]:
        """Commit and wait. Logs and returns the partitions that could not be committed."""
        if not wanted:
            return set()
        try:
            return await call_in_thread(partial(commit_now, committer, wanted, label), limit_s, "group-offsets")
        except TimeoutError:
            log.error("last commit failed; some events may be delivered again", subscription=label, reason="no answer")
            return {where.partition for where in wanted}


class GroupCommitter:
    """Commits for one group, as `agents/consumer/commits` wants it."""

    def __init__(self, offsets: GroupOffsets, group: str, done: OnCommit, confirmed: Callable[[], bool]) -> None:
        """`confirmed`: whether the process is known to own the partitions. Asked before each commit, in its thread."""
        self.group = group
        self._offsets = offsets
        self._done = done
        self._confirmed = confirmed

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        """See `Committer`."""
        if not self._confirmed():
            # As Kafka refuses a member whose partitions may belong to another one.
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "the assignment is not confirmed"))
        if asynchronous:
            self._offsets.begin_commit(self.group, offsets, self._done)
            return []
        answer: Future[tuple[KafkaError | None, list[TopicPartition]]] = Future()
        self._offsets.begin_commit(self.group, offsets, lambda *results: answer.set_result(results))
        error, results = answer.result(_ANSWER_LIMIT_S)
        if error is not None:
            raise KafkaException(error)
        return results
