"""Administration of consumer groups. All methods block, like those of `kafka_admin`: call them in a thread."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tables.kafka.admin.answers import GroupInfo, GroupOffset, TopicAndPartition
from tables.kafka.admin.background_loop import background_loop, run_in_background_loop
from tables.kafka.admin.turns import turns_s
from tables.kafka.errors import KafkaFailed, KafkaNotFound, leave_out, unanswered
from tables.kafka.loop_thread import call_soon
from tables.timing import CLOSE_S, LATER_S

if TYPE_CHECKING:
    from tables.kafka.admin.group_client import GroupClient

T = TypeVar("T")

OnPartition = Callable[[TopicAndPartition, KafkaFailed], None]  #: what becomes of an error of one partition

_RAISE = leave_out()


class GroupAdmin:
    """Requests about groups. Thread-safe. `on_error`: as for `KafkaAdmin`."""

    def __init__(self, kafka: Mapping[str, Any], limit_s: float) -> None:
        """`kafka`: librdkafka client settings."""
        self._kafka = kafka
        self._limit_s = limit_s
        self._client: GroupClient | None = None  # made and used on the background loop

    def close(self) -> None:
        """Drop the client. A request under way may end without an answer."""
        client, self._client = self._client, None
        if client is not None:
            run_in_background_loop(client.close(), CLOSE_S)

    def describe(self, group: str) -> GroupInfo | None:
        """Returns a group; None when there is none of this id."""
        return self.describe_all([group]).get(group)

    def describe_all(
        self,
        groups: Collection[str],
        on_error: Callable[[str, KafkaFailed], None] = _RAISE,
        limit_s: float | None = None,
    ) -> dict[str, GroupInfo]:
        """Describes several groups at once; leaves out groups that do not exist."""
        limit_s = self._limit_s if limit_s is None else limit_s
        answers = self._at_once(groups, lambda client, group, within: client.describe(group, within), limit_s)
        described = {}
        for group, answer in answers.items():
            if isinstance(answer, KafkaFailed):
                on_error(group, answer)
            elif answer is not None:
                described[group] = answer
        return described

    def delete(self, group: str) -> None:
        """Delete a group without members; it may be gone already."""
        try:
            self._run(lambda client: client.delete(group, self._limit_s), self._limit_s)
        except KafkaNotFound:
            return

    def committed(
        self,
        group: str,
        partitions: Iterable[TopicAndPartition] | None = None,
        on_error: OnPartition = _RAISE,
    ) -> dict[TopicAndPartition, GroupOffset]:
        """Returns what a group has committed, without partitions where it has not. `partitions` None: all of them."""
        return self.committed_by({group: partitions}, on_error)[group]

    def committed_by(
        self,
        groups: Mapping[str, Iterable[TopicAndPartition] | None],
        on_error: OnPartition = _RAISE,
    ) -> dict[str, dict[TopicAndPartition, GroupOffset]]:
        """Reads several groups at once: group -> partition -> what it has committed."""
        by_group = {group: None if partitions is None else list(partitions) for group, partitions in groups.items()}
        asked = [group for group, partitions in by_group.items() if partitions != []]
        answers = self._at_once(
            asked, lambda client, group, within: client.fetch_partitions(group, by_group[group], within), self._limit_s
        )
        offsets: dict[str, dict[TopicAndPartition, GroupOffset]] = {group: {} for group in groups}
        for group, answer in answers.items():
            if isinstance(answer, KafkaFailed):
                raise answer
            offsets[group], problems = answer
            for partition, problem in problems.items():
                on_error(partition, problem)
        return offsets

    def committed_or_why(
        self, groups: Mapping[str, Collection[TopicAndPartition]]
    ) -> dict[str, dict[TopicAndPartition, GroupOffset] | KafkaFailed]:
        """Reads the same, with the first error in place of a group that cannot be read."""

        async def ask(client: GroupClient, group: str, within: float) -> dict[TopicAndPartition, GroupOffset]:
            offsets, problems = await client.fetch_partitions(group, groups[group], within)
            for problem in problems.values():
                raise problem
            return offsets

        return self._at_once(groups, ask, self._limit_s)

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> None:
        """Commit offsets of a group, which must have no members."""
        self._run(lambda client: client.commit_in_time(group, offsets, self._limit_s), self._limit_s)

    # -- the client

    def _at_once(
        self, groups: Collection[str], ask: Callable[[GroupClient, str, float], Coroutine[Any, Any, T]], limit_s: float
    ) -> dict[str, T | KafkaFailed]:
        longest_s = limit_s + turns_s(len(groups))
        within = limit_s + turns_s(len(groups)) / 2

        async def ask_about(client: GroupClient, group: str) -> T | KafkaFailed:
            try:
                return await ask(client, group, within)
            except KafkaFailed as problem:
                return problem

        async def ask_about_all(client: GroupClient) -> list[T | KafkaFailed]:
            return await asyncio.gather(*(ask_about(client, group) for group in groups))

        return dict(zip(groups, self._run(ask_about_all, longest_s), strict=True)) if groups else {}

    def _run(self, request: Callable[[GroupClient], Coroutine[Any, Any, T]], limit_s: float) -> T:
        from tables.kafka.admin.group_client import GroupClient  # 40 ms, which most commands do not need

        async def run() -> T:
            if self._client is None:
                # A coordinator that cannot be reached is tried four times at least within the limit.
                self._client = GroupClient(self._kafka, "penstock-admin", self._limit_s / 4)
                weakref.finalize(self, _close_soon, self._client).atexit = False
            return await request(self._client)

        try:
            return run_in_background_loop(run(), limit_s + LATER_S)
        except TimeoutError as problem:
            raise unanswered("asking about groups", f"time limit of {limit_s:g} s") from problem


def _close_soon(client: GroupClient) -> None:
    """Closes the client: its connections and its task for metadata would stay as long as the process."""
    loop = background_loop()
    call_soon(loop, lambda: loop.create_task(client.close()))
