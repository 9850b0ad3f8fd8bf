"""Describes and deletes groups, and reads and commits their offsets, on the event loop.

Offsets are committed without being a member: Kafka refuses it while a group has members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tables.kafka.admin.answers import GroupInfo, GroupOffset, TopicAndPartition
from tables.kafka.admin.consumer_protocol import ConsumerGroupDescribeRequest
from tables.kafka.admin.coordinators import MOVED, REACH_S, REQUEST_S, UNANSWERED, Coordinators, NotReached
from tables.kafka.errors import KafkaFailed, failed
from tables.timing import AGAIN_S

T = TypeVar("T")

_DEAD = "Dead"  #: how Kafka describes a group that does not exist, or that has another protocol than the request
#: Written after metadata, as librdkafka does: it copies what it reads without an end, and would read on in memory.
_END = "\0"


class _Checked:
    """A request that asks whether it may be sent as the last step before the socket, when it is encoded already.

    Kafka does not refuse a commit that comes late. A process that is frozen in between sends it when it goes on, and so
    moves back what another process has committed meanwhile.
    """

    def __init__(self, request: Any, may_send: Callable[[], bool]) -> None:
        self._request = request
        self._may_send = may_send

    def prepare(self, versions: Any) -> Any:
        """aiokafka calls this, then `encode` of what it returns, and writes the result to the socket."""
        prepared = self._request.prepare(versions)
        encoded = prepared.encode()

        def encode() -> Any:
            if not self._may_send():
                # As Kafka refuses a member whose partitions may belong to another one.
                raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "the assignment is not confirmed"))
            return encoded

        prepared.encode = encode
        return prepared


class GroupClient:
    """One client for all groups of a process. Event loop only. The methods with a limit try again while a coordinator
    moves or cannot be reached, and raise KafkaFailed; a request that changes something is not sent again when it may
    have been carried out."""

    def __init__(
        self, kafka: Mapping[str, Any], client_name: str, reach_s: float = REACH_S, arrive_s: float = REQUEST_S
    ) -> None:
        """`kafka`: librdkafka client settings. When they are replaced, so is the client. `arrive_s`: a request that has
        not arrived after that never does."""
        self._coordinators = Coordinators(kafka, client_name, reach_s, arrive_s)

    async def close(self) -> None:
        """Close all connections. A request after that fails."""
        await self._coordinators.close()

    # -- groups

    async def describe(self, group: str, limit_s: float) -> GroupInfo | None:
        """Returns a group; None when there is none of this id."""
        doing, acl = f"describing group {group}", f"Describe on group {group}"
        return await _with_retries(lambda: self._describe(group), _read_again, limit_s, doing, acl)

    async def _describe(self, group: str) -> GroupInfo | None:
        # One group in each request: aiokafka (still 0.14) misreads what comes after the first one in an answer.
        answer = await self._coordinators.ask(group, DescribeGroupsRequest([group]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        if state == _DEAD and code in (0, KafkaError.GROUP_ID_NOT_FOUND):
            return await self._describe_consumer_protocol(group)
        self._coordinators.check(group, code)
        return GroupInfo(state, len(members))

    async def _describe_consumer_protocol(self, group: str) -> GroupInfo | None:
        try:
            answer = await self._coordinators.ask(group, ConsumerGroupDescribeRequest(group))
            ((code, _, _, state, _, _, _, members),) = answer.groups
            self._coordinators.check(group, code)
        except KafkaException as problem:
            # The second: a Kafka that is older than this protocol, or for which it is not enabled.
            if problem.args[0].code() in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION):
                return None
            raise
        return None if state == _DEAD else GroupInfo(state, members - 1)

    async def delete(self, group: str, limit_s: float) -> None:
        """Delete a group without members. Raises KafkaNotFound when there is none."""

        async def ask() -> None:
            ((_, code),) = (await self._coordinators.ask(group, DeleteGroupsRequest([group]))).results
            self._coordinators.check(group, code)

        await _with_retries(ask, _change_again, limit_s, f"deleting group {group}", f"Delete on group {group}")

    # -- offsets

    async def fetch(self, group: str, topic: str, numbers: Collection[int], limit_s: float) -> dict[int, GroupOffset]:
        """Returns partition -> what the group has committed, without those that have nothing."""
        offsets, problems = await self.fetch_partitions(group, [(topic, number) for number in numbers], limit_s)
        for problem in problems.values():
            raise problem
        return {number: group_offset for (_, number), group_offset in offsets.items()}

    async def fetch_partitions(
        self, group: str, partitions: Collection[TopicAndPartition] | None, limit_s: float
    ) -> tuple[dict[TopicAndPartition, GroupOffset], dict[TopicAndPartition, KafkaFailed]]:
        """Returns what the group has committed, without partitions that have nothing, and the errors of those that have
        one. `partitions` None: wherever it has."""
        return await _with_retries(
            lambda: self._fetch(group, None if partitions is None else _by_topic(partitions)),
            _read_again,
            limit_s,
            *_reading_offsets(group),
        )

    async def _fetch(
        self, group: str, asked: list[tuple[str, list[Any]]] | None
    ) -> tuple[dict[TopicAndPartition, GroupOffset], dict[TopicAndPartition, KafkaFailed]]:
        answer = await self._coordinators.ask(group, OffsetFetchRequest(group, asked))
        self._coordinators.check(group, answer.error_code)
        offsets: dict[TopicAndPartition, GroupOffset] = {}
        problems: dict[TopicAndPartition, KafkaFailed] = {}
        for topic, partitions in answer.topics:
            for number, offset, metadata, code in partitions:
                if code in MOVED:
                    self._coordinators.check(group, code)
                elif code:
                    doing, acl = _reading_offsets(group)
                    problems[topic, number] = failed(f"{doing}, partition {number}", KafkaError(code), acl)
                elif offset >= 0:
                    offsets[topic, number] = GroupOffset(offset, metadata and metadata.removesuffix(_END))
        return offsets, problems

    async def commit(self, group: str, offsets: Sequence[TopicPartition], may_send: Callable[[], bool]) -> None:
        """Commit, in one try. `may_send` is asked right before the request is written. Raises KafkaException, with the
        first error of a partition; others may have been committed."""
        rows = [
            (
                topic_partition.topic,
                topic_partition.partition,
                topic_partition.offset,
                topic_partition.metadata + _END if topic_partition.metadata else "",
            )
            for topic_partition in offsets
        ]
        request = OffsetCommitRequest(group, -1, "", -1, _by_topic(rows))  # no generation, and Kafka's own retention
        answer = await self._coordinators.ask(group, _Checked(request, may_send))
        for _, partitions in answer.topics:
            for _, code in partitions:
                self._coordinators.check(group, code)

    async def commit_in_time(self, group: str, offsets: Mapping[TopicAndPartition, int], limit_s: float) -> None:
        """Commit offsets of a group, which must have no members."""
        topic_partitions = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        await _with_retries(
            lambda: self.commit(group, topic_partitions, lambda: True),
            _change_again,
            limit_s,
            f"committing offsets of group {group}",
            f"Read on group {group} and its topics",
        )


def _reading_offsets(group: str) -> tuple[str, str]:
    """Returns what this request does, and the permission that it needs, in the words of errors."""
    return f"reading the offsets of group {group}", f"Describe on group {group} and its topics"


def _by_topic(partitions: Iterable[tuple[Any, ...]]) -> list[tuple[str, list[Any]]]:
    """Returns (topic, partition) and (topic, partition, more...), as requests have them."""
    by_topic: dict[str, list[Any]] = {}
    for topic, *rest in partitions:
        by_topic.setdefault(topic, []).append(tuple(rest) if len(rest) > 1 else rest[0])
    return list(by_topic.items())


def _read_again(problem: KafkaException) -> bool:
    return problem.args[0].code() in MOVED | UNANSWERED


def _change_again(problem: KafkaException) -> bool:
    """Returns whether to send a change again: not if the request may have been carried out."""
    return (isinstance(problem, NotReached) and _read_again(problem)) or problem.args[0].code() in MOVED


async def _with_retries(
    ask: Callable[[], Awaitable[T]], again: Callable[[KafkaException], bool], limit_s: float, doing: str, acl: str
) -> T:
    last = KafkaError(KafkaError._TIMED_OUT)
    try:
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    return await ask()
                except KafkaException as problem:
                    last = problem.args[0]
                    if not again(problem):
                        raise failed(doing, last, acl) from problem
                await asyncio.sleep(AGAIN_S)
    except TimeoutError as problem:
        raise failed(doing, last) from problem
