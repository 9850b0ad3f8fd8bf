"""Reads and commits the offsets of groups without members, as the groups of Triggers are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import structlog
from confluent_kafka import KafkaError, TopicPartition

from knative.ports import Observe
from tables.kafka.admin import KafkaAdmin
from tables.kafka.answers import GroupOffset, Place
from tables.kafka.errors import KafkaFailed, KafkaUnavailable
from tables.kafka.loop_thread import call_in_thread

log = structlog.get_logger(__name__)

_READ_LIMIT_S = 25.0
_TRIES = 3
_NOTHING = GroupOffset(-1, None)

#: Group -> partition -> its committed offset and metadata.
Starts = Mapping[str, Mapping[int, GroupOffset]]
#: As `Commits.on_commit`.
OnCommit = Callable[[KafkaError | None, list[TopicPartition]], None]


class GroupOffsets:
    """The offsets of the groups of one process. Event loop only."""

    def __init__(self, admin: KafkaAdmin, observe: Observe) -> None:
        self._admin = admin
        self._observe = observe

    async def read(self, topic: str, groups: Mapping[str, str], numbers: Collection[int]) -> Starts:
        """Group -> partition -> where it starts. `groups`: group -> the label of its Trigger. A group without a
        committed offset starts at the beginning of the log. Raises KafkaFailed."""
        places = [(topic, number) for number in numbers]
        try:
            return await call_in_thread(partial(self._read, groups, places), _READ_LIMIT_S, "group-offsets")
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
                found = committed[group].get(place, _NOTHING)
                if found.offset < 0:
                    found = GroupOffset(low[place], "")
                    if high[place] > 0:
                        log.warning(
                            "no committed offset; reading from the start of the log",
                            subscription=label,
                            partition=place[1],
                            offset=found.offset,
                        )
                    if found.offset:
                        self._observe.expired(label, found.offset)
                result[group][place[1]] = found
        return result

    def commit(self, group: str, offsets: list[TopicPartition], done: OnCommit) -> None:
        """Commit; `done` gets the answer, in another thread."""
        self._admin.begin_commit(group, offsets, done)

    async def commit_now(self, group: str, offsets: list[TopicPartition], label: str, limit_s: float) -> set[int]:
        """Commit and wait. Logs and returns the partitions that could not be committed."""
        if not offsets:
            return set()
        try:
            return await call_in_thread(partial(self._commit_now, group, offsets, label), limit_s, "group-offsets")
        except TimeoutError:
            log.error("last commit failed; some events may be delivered again", subscription=label, reason="no answer")
            return {where.partition for where in offsets}

    def _commit_now(self, group: str, offsets: list[TopicPartition], label: str) -> set[int]:
        wanted = {(one.topic, one.partition): GroupOffset(one.offset, one.metadata) for one in offsets}
        reason = ""
        for _ in range(_TRIES):
            refused: dict[Place, KafkaFailed] = {}
            try:
                self._admin.commit(group, wanted, refused.__setitem__)
            except KafkaFailed as problem:
                reason = problem.why
                continue
            wanted = {place: wanted[place] for place in refused}
            if not wanted:
                return set()
            reason = "; ".join(problem.why for problem in refused.values())
        log.error("last commit failed; some events may be delivered again", subscription=label, reason=reason)
        return {number for _, number in wanted}


class GroupCommitter:
    """Commits for one group, as `agents/consumer/commits` wants it."""

    def __init__(self, offsets: GroupOffsets, group: str, done: OnCommit) -> None:
        self._offsets = offsets
        self._group = group
        self._done = done

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        """See `Committer`."""
        assert asynchronous, "the event loop does not wait"
        self._offsets.commit(self._group, offsets, self._done)
