"""Reads and commits the offsets of groups that no client joins: those of Subscriptions and Triggers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents.offsets.commits import Answered
from agents.offsets.late_commits import Reported, Start, start_at
from knative.contract.records import Subscription
from knative.ports import Observe
from tables.kafka.admin.answers import GroupOffset
from tables.kafka.admin.group_client import GroupClient
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaUnavailable
from tables.kafka.loop_thread import call_in_thread
from tables.timing import AGAIN_S, ANSWER_S

log = structlog.get_logger(__name__)

_READ_LIMIT_S = 25.0
_TRIES = 3
#: The log event for an offset that was set back, and what to do if that was on purpose.
SET_BACK = "a late commit has reached Kafka, or another client has moved the offset; the offset is committed again"
SET_BACK_HINT = "to move offsets, use penstock seek"


#: Group -> partition -> where it begins.
Starts = Mapping[str, Mapping[int, Start]]
#: Whether the process is known to own, still and without a break, the partitions that it was asked to commit.
Claim = Callable[[], bool]


class GroupOffsets:
    """The offsets of the groups of one process. Event loop only."""

    def __init__(self, admin: KafkaAdmin, client: GroupClient, observe: Observe, reported: Reported) -> None:
        self._admin = admin
        self._client = client
        self._observe = observe
        self._reported = reported
        self._commits: set[asyncio.Task[None]] = set()

    async def read(self, topic: str, subscriptions: Collection[Subscription], numbers: Collection[int]) -> Starts:
        """Returns group -> partition -> where it starts. A group without a committed offset starts at the beginning of
        the log. Raises KafkaFailed."""
        answers = await asyncio.gather(*(self.starts(subscription, numbers) for subscription in subscriptions))
        labels = {subscription.group: subscription.label for subscription in subscriptions}
        starts = dict(zip(labels, answers, strict=True))
        missing = {number for offsets in starts.values() for number in numbers if number not in offsets}
        if missing:
            bounds = await self._bounds(topic, missing)
            for group, offsets in starts.items():
                for number in missing - offsets.keys():
                    low, high = bounds[number]
                    at = _log_start(labels[group], number, low, high, self._observe)
                    offsets[number] = Start(at, "", committed=False)
        return starts

    async def starts(self, subscription: Subscription, numbers: Collection[int]) -> dict[int, Start]:
        """Returns partition -> where it starts, without those of which nothing is committed. Raises KafkaFailed."""
        committed = await self.committed(subscription.topic, subscription.group, numbers)
        reported = self._reported(subscription)
        starts = {number: start_at(offset, reported.get(number)) for number, offset in committed.items()}
        for number, start in starts.items():
            if not start.committed:
                log.warning(
                    SET_BACK,
                    subscription=subscription.label,
                    partition=number,
                    committed=committed[number].offset,
                    offset=start.offset,
                    hint=SET_BACK_HINT,
                )
        return starts

    async def committed(self, topic: str, group: str, numbers: Collection[int]) -> Mapping[int, GroupOffset]:
        """Returns partition -> what the group has committed, without those that have nothing. Raises KafkaFailed."""
        return await self._client.fetch(group, topic, numbers, _READ_LIMIT_S)

    async def _bounds(self, topic: str, numbers: Collection[int]) -> Mapping[int, tuple[int, int]]:
        try:
            return await call_in_thread(partial(self._ask_bounds, topic, numbers), _READ_LIMIT_S, "log-bounds")
        except TimeoutError as problem:
            raise KafkaUnavailable(f"Kafka did not answer within {_READ_LIMIT_S:g} s") from problem

    def _ask_bounds(self, topic: str, numbers: Collection[int]) -> Mapping[int, tuple[int, int]]:
        places = [(topic, number) for number in numbers]
        low, high = self._admin.first_offsets(places), self._admin.end_offsets(places)
        return {number: (low[topic, number], high[topic, number]) for number in numbers}

    def begin_commit(self, group: str, places: list[TopicPartition], claim: Claim, done: Answered) -> None:
        """Commit, unless the process does not own all of it any more when the request is sent; `done` gets the answer.
        Returns at once."""
        task = asyncio.get_running_loop().create_task(self._commit(group, places, claim, done))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit(self, group: str, places: list[TopicPartition], claim: Claim, done: Answered) -> None:
        done(await self.commit(group, places, claim))

    async def commit_now(self, group: str, places: list[TopicPartition], claim: Claim, label: str) -> set[int]:
        """Commit and wait. Logs and returns the partitions that could not be committed."""
        if not places:
            return set()
        loop, problem = asyncio.get_running_loop(), KafkaError(KafkaError._TIMED_OUT)
        end = loop.time() + ANSWER_S
        for left in reversed(range(_TRIES)):
            refused = await self.commit(group, places, claim, end - loop.time())
            if refused is None:
                return set()
            problem = refused
            if left:
                await asyncio.sleep(AGAIN_S)
        log.error("last commit failed; some events may be delivered again", subscription=label, reason=problem.str())
        return {place.partition for place in places}

    async def commit(
        self, group: str, places: Sequence[TopicPartition], claim: Claim, limit_s: float = ANSWER_S
    ) -> KafkaError | None:
        """Commit once, and wait. None: it is confirmed."""
        try:
            async with asyncio.timeout(limit_s):
                await self._client.commit(group, places, claim)
        except TimeoutError:
            return KafkaError(KafkaError._TIMED_OUT)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            return error
        except Exception as problem:  # without an answer, nothing would be committed any more
            log.exception("the client for offsets failed", group=group)
            return KafkaError(KafkaError._FAIL, str(problem))
        return None


def _log_start(label: str, number: int, low: int, high: int, observe: Observe) -> int:
    """Returns the start of the log, `low`, for a partition without a committed offset. Logs a warning if it ever had
    records, and counts those that have expired."""
    assert high >= low
    if high > 0:
        log.warning(
            "there is no committed offset; the partition is read from the start of its log",
            subscription=label,
            partition=number,
            offset=low,
        )
    if low:
        observe.expired(label, low)
    return low
