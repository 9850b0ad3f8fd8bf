"""Leader election by a group lock: the owner of the lock group's single partition leads, the others wait.

    thread: poll -> assigned -> leading      revoked, lost -> not leading        confirm(): a commit, fenced by Kafka

The group subscribes to the contract topic, whose single partition has a single owner; nothing is fetched from it. A
process that was stopped longer than the session timeout (SIGSTOP, a frozen machine) still believes that it leads. So
`confirm` makes a commit, which Kafka accepts only from the present owner, before the leader acts.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

log = structlog.get_logger(__name__)

_POLL_S = 0.1  #: also the longest time until a `confirm` is sent


class LeaderElection:
    """Tries to lead from `start` to `stop`. `changed` is called on the event loop whenever `leading` changes."""

    def __init__(
        self,
        group: str,
        topic: str,
        kafka: Mapping[str, Any],
        session_timeout_s: float,
        changed: Callable[[], None],
        crashed: Callable[[BaseException], None],
        quiet: bool = False,
    ) -> None:
        """`kafka`: librdkafka client settings. `crashed` gets the exception that ended the thread, and must end the
        process. `quiet`: log nothing, because the owner reports what matters."""
        self._quiet = quiet
        self._session_timeout_s = session_timeout_s
        session_ms = int(session_timeout_s * 1000)
        self._conf = {
            "topic.metadata.refresh.interval.ms": 10_000,
            "log_level": 2,  # the caller of a failed action reports an unavailable Kafka once
            **kafka,
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
        self._changed, self._crashed = changed, crashed
        self._stop = threading.Event()
        self._questions: deque[asyncio.Future[bool]] = deque()  #: the event loop appends, the thread pops
        self._asked: list[asyncio.Future[bool]] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._term = 0
        self._leading = False
        self._error = ""

    @property
    def leading(self) -> bool:
        """Whether this process leads, as far as it knows."""
        return self._leading

    @property
    def term(self) -> int:
        """How often leadership was gained. Compare it before and after acting: it changes if leadership was lost."""
        return self._term

    def start(self) -> None:
        """Start trying to lead; returns at once."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._guarded, name="controller-election", daemon=True)
        self._thread.start()

    async def stop(self, limit_s: float) -> None:
        """Give up leadership by leaving the group, so that another process can lead at once."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, limit_s)
        self._leading = False

    async def confirm(self) -> bool:
        """Whether Kafka confirms that this process leads. False also if Kafka does not answer in time."""
        if not self._leading:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions.append(answer)
        try:
            return await asyncio.wait_for(answer, self._session_timeout_s)
        except TimeoutError:
            return False

    # -- thread (the consumer's callbacks run in it, within poll)

    def _ask(self, consumer: Consumer) -> None:
        """One commit for all waiting calls of `confirm`. Asynchronous, because an unavailable Kafka must not stop the
        polls."""
        if not self._questions:
            return
        while self._questions:
            self._asked.append(self._questions.popleft())
        try:
            consumer.commit(offsets=[TopicPartition(self._topic, 0, 0)], asynchronous=True)
        except KafkaException as problem:
            self._committed(problem.args[0], [])

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        error = error or next((one.error for one in partitions if one.error is not None), None)
        if error is not None:
            self._report(error)
        asked, self._asked = self._asked, []
        self._call(_answer, asked, error is None and self._leading)

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as problem:  # passed to `crashed`, which ends the process
            self._call(self._crashed, problem)

    def _run(self) -> None:
        consumer = Consumer(self._conf)
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        try:
            while not self._stop.is_set():
                self._ask(consumer)
                message = consumer.poll(_POLL_S)
                if message is not None and message.error() is not None:
                    self._report(message.error())
        finally:
            self._set(leading=False)
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = OFFSET_END
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)  # only ownership matters, the contract's records are read elsewhere
        if partitions:
            self._set(leading=True)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._set(leading=False)

    def _set(self, *, leading: bool) -> None:
        if leading == self._leading:
            return
        self._term += leading
        self._leading = leading
        if not self._quiet:
            event = "controller is the leader" if leading else "controller is no longer the leader"
            log.info(event, group=self._conf["group.id"])
        self._call(self._changed)

    def _report(self, error: KafkaError | None) -> None:
        text = error.str() if error is not None else ""
        if text != self._error and not self._quiet:
            self._error = text
            log.warning("error in the lock group", reason=text)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)


def _answer(asked: list[asyncio.Future[bool]], agreed: bool) -> None:
    for answer in asked:
        if not answer.done():
            answer.set_result(agreed)
