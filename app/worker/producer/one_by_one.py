"""Sends the records of rejected batches again, each in a batch of its own, by a producer that is started when needed.

    UNUSED --first record--> STARTING --started--> RUNNING
       ^                         |
       +--------- failed --------+

A broker rejects a batch that is too large as a whole, and only a record by itself shows whether it is the one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import structlog
from confluent_kafka import Message

from knative.ports import Headers, ProduceFailure, ProduceProblem, Stored

log = structlog.get_logger(__name__)


class State(Enum):
    """Whether there is a producer for single records. It is kept from then on."""

    UNUSED = "no batch was rejected so far, or its client could not be built"
    STARTING = "its client is being built; records wait"
    RUNNING = "records are passed on at once"


class SingleRecords(Protocol):
    """A producer whose batches have one record."""

    async def start(self) -> None: ...

    async def stop(self, limit_s: float) -> None: ...

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None: ...


class OneByOne:
    """The second way of a record. Event loop only."""

    def __init__(self, make: Callable[[], SingleRecords]) -> None:
        self.state = State.UNUSED
        self._make = make
        self._producer: SingleRecords | None = None
        self._starting: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[Stored, Headers, Message]] = deque()  # while it is STARTING

    def send(self, done: Stored, headers: Headers, message: Message) -> None:
        """Send a record again, to the same partition. Records that were out at the same time have no guaranteed order,
        so it may come after later ones."""
        self._waiting.append((done, headers, message))
        if self.state is State.UNUSED:
            log.warning(
                "Kafka rejected a batch as too large; its records are sent again one by one", topic=message.topic()
            )
            self.state = State.STARTING
            self._producer = self._make()
            self._starting = asyncio.get_running_loop().create_task(self._start(self._producer))
        elif self.state is State.RUNNING and self._producer is not None:
            self._pass_on(self._producer)

    async def stop(self, limit_s: float) -> None:
        """As that of a producer; nothing to do if it was never needed."""
        if self._starting is not None:
            await self._starting
        if self._producer is not None:
            await self._producer.stop(limit_s)

    async def _start(self, producer: SingleRecords) -> None:
        try:
            await producer.start()
        except Exception as problem:  # the file of a certificate is not there any more, or there can be no more threads
            log.exception("the producer for single records could not be started")
            self.state, self._producer = State.UNUSED, None
            waiting, self._waiting = self._waiting, deque()
            for done, _, message in waiting:
                _fail(done, message, f"it could not be sent again: {problem}")
        else:
            self.state = State.RUNNING
            self._pass_on(producer)

    def _pass_on(self, producer: SingleRecords) -> None:
        while self._waiting:
            done, headers, message = self._waiting.popleft()
            partition = message.partition()
            partition = -1 if partition is None else partition
            producer.send(message.topic() or "", message.value(), message.key(), headers, done, partition)


def _fail(done: Stored, message: Message, why: str) -> None:
    """Never raises: an error of one caller must not affect the records after it."""
    try:
        done(ProduceFailure(ProduceProblem.UNAVAILABLE, why))
    except Exception:
        log.exception("the callback for a record failed", topic=message.topic())
