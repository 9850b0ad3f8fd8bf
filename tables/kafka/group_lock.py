"""A lock for all processes of one installation: the owner of a group's single partition holds it, the others wait.

    thread: poll -> assigned -> held         revoked, lost -> not held           confirm(): a commit, fenced by Kafka

The group subscribes to a topic whose single partition has a single owner; nothing is fetched from it. A process that
was stopped longer than the session timeout (SIGSTOP, a frozen machine) still believes that it holds the lock. So
`confirm` makes a commit, which Kafka accepts only from the present owner, before the holder acts. After a kill Kafka
gives the lock to another process when the session has timed out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from tables.kafka.loop_thread import LoopThread
from tables.timing import POLL_S

_DEFAULTS = {
    "topic.metadata.refresh.interval.ms": 10_000,
    "log_level": 2,  # the caller of a failed action reports an unavailable Kafka once
}


class GroupLock:
    """Tries to get and keep the lock from `start` to `stop`. Callbacks run on the event loop."""

    def __init__(
        self,
        group: str,
        topic: str,
        kafka: Mapping[str, Any],
        session_timeout_s: float,
        *,
        changed: Callable[[bool], None],
        crashed: Callable[[BaseException], None],
        failed: Callable[[str], None],
    ) -> None:
        """`topic`: must exist, with one partition. `kafka`: librdkafka client settings.

        `changed` gets the new value of `held`. `crashed` gets the exception that ended the thread. `failed` gets an
        error of the group, once as long as it stays the same.
        """
        self._session_timeout_s = session_timeout_s
        session_ms = int(session_timeout_s * 1000)
        self._kafka = kafka
        self._conf = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(session_ms // 5, 1),
            "allow.auto.create.topics": False,
            "on_commit": self._committed,
        }
        self._topic = topic
        self._changed, self._failed = changed, failed
        self._questions: deque[asyncio.Future[bool]] = deque()  #: the event loop appends, the thread pops
        self._asked: list[asyncio.Future[bool]] = []
        self._thread = LoopThread(self._run, f"lock-{group}", crashed)
        self._term = 0
        self._held = False
        self._error: str | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock, as far as it knows."""
        return self._held

    @property
    def term(self) -> int:
        """How often the lock was gained. Compare it before and after acting: it changes if the lock was lost."""
        return self._term

    def start(self) -> None:
        """Start trying to get it; returns at once."""
        self._thread.start()

    async def stop(self, limit_s: float) -> None:
        """Give it up by leaving the group, so that another process can have it at once."""
        await self._thread.stop(limit_s)
        self._held = False

    async def confirm(self) -> bool:
        """Returns whether Kafka confirms that this process holds the lock; False too if it does not answer in time."""
        if not self._held:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions.append(answer)
        try:
            async with asyncio.timeout(self._session_timeout_s):
                return await answer
        except TimeoutError:
            return False

    # -- thread (the consumer's callbacks run in it, within poll)

    def _ask(self, consumer: Consumer) -> None:
        """Sends one commit for all waiting calls of `confirm`. It is asynchronous, because an unavailable Kafka must
        not stop the polls."""
        if not self._questions:
            return
        while self._questions:
            self._asked.append(self._questions.popleft())
        try:
            consumer.commit(offsets=[TopicPartition(self._topic, 0, 0)], asynchronous=True)
        except KafkaException as problem:
            self._committed(problem.args[0], [])

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        error = error or next((partition.error for partition in partitions if partition.error is not None), None)
        if error is not None:
            self._report(error)
        asked, self._asked = self._asked, []
        self._thread.call_soon(_answer, asked, error is None and self._held)

    def _run(self) -> None:
        consumer = Consumer({**_DEFAULTS, **self._kafka, **self._conf})
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        try:
            while not self._thread.stopping.is_set():
                self._ask(consumer)
                message = consumer.poll(POLL_S)
                if message is not None and (error := message.error()) is not None:
                    self._report(error)
        finally:
            self._set(held=False)
            consumer.close()
            asked, self._asked = self._asked, []
            self._thread.call_soon(_answer, asked, False)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = OFFSET_END
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)  # only ownership matters; records are read elsewhere
        if partitions:
            self._set(held=True)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._set(held=False)

    def _set(self, *, held: bool) -> None:
        if held == self._held:
            return
        self._term += held
        self._held = held
        self._thread.call_soon(self._changed, held)

    def _report(self, error: KafkaError) -> None:
        if error.str() != self._error:
            self._error = error.str()
            self._thread.call_soon(self._failed, self._error)


def _answer(asked: list[asyncio.Future[bool]], agreed: bool) -> None:
    for answer in asked:
        if not answer.done():
            answer.set_result(agreed)
