"""Records of rejected batches wait until the producer for single records has started, and keep their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from app.worker.producer.one_by_one import OneByOne, State
from knative.ports import Headers, ProduceFailure, ProduceProblem, Stored
from penstock.virtual_loop import run


class Record:
    """A message of librdkafka, as far as it is sent again."""

    def __init__(self, number: int) -> None:
        self.number = number

    def topic(self) -> str:
        """Its topic."""
        return "t"

    def partition(self) -> int:
        """Its partition."""
        return self.number

    def key(self) -> None:
        """None."""

    value = key


class Single:
    """A producer that takes a second to start."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.stopped = False

    async def start(self) -> None:
        """In a second."""
        await asyncio.sleep(1)

    async def stop(self, limit_s: float) -> None:
        """At once."""
        self.stopped = True

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """Note it."""
        self.sent.append(partition)


def using(do: Callable[[OneByOne, Callable[[int], None]], Any]) -> tuple[OneByOne, list[Single]]:
    made: list[Single] = []

    def make() -> Single:
        made.append(Single())
        return made[-1]

    async def main() -> OneByOne:
        it = OneByOne(make)

        def send(number: int) -> None:
            record: Any = Record(number)
            it.send(lambda failure: None, [], record)

        await do(it, send)
        return it

    return run(main()), made


def test_what_comes_before_the_start_is_sent_after_it() -> None:
    states: list[State] = []

    async def do(it: OneByOne, send: Callable[[int], None]) -> None:
        states.append(it.state)
        send(1)
        send(2)
        states.append(it.state)
        await asyncio.sleep(2)
        states.append(it.state)
        send(3)

    _, made = using(do)
    assert states == list(State)
    assert [single.sent for single in made] == [[1, 2, 3]]


def test_stop_during_the_start_waits_for_it() -> None:
    async def do(it: OneByOne, send: Callable[[int], None]) -> None:
        send(1)
        await it.stop(0.0)

    _, made = using(do)
    assert [(single.sent, single.stopped) for single in made] == [([1], True)]


def test_stop_without_use_starts_nothing() -> None:
    async def do(it: OneByOne, send: Callable[[int], None]) -> None:
        await it.stop(0.0)

    it, made = using(do)
    assert (it.state, made) == (State.UNUSED, [])


def test_whoever_waits_for_a_producer_that_cannot_start_gets_an_answer() -> None:
    """And the next record tries again."""
    made: list[Single] = []
    answers: list[ProduceFailure | None] = []

    class Broken(Single):
        async def start(self) -> None:
            raise OSError("no certificate")

    def make() -> Single:
        made.append(Single() if made else Broken())
        return made[-1]

    def answer(failure: ProduceFailure | None) -> None:
        answers.append(failure)
        raise RuntimeError("by a test")

    async def main() -> None:
        it = OneByOne(make)
        records: list[Any] = [Record(number) for number in range(3)]
        it.send(answer, [], records[0])
        it.send(answer, [], records[1])
        await asyncio.sleep(0.1)
        assert it.state is State.UNUSED
        it.send(answer, [], records[2])
        await asyncio.sleep(2)
        await it.stop(0.0)

    run(main())
    failed = ProduceFailure(ProduceProblem.UNAVAILABLE, "it could not be sent again: no certificate")
    assert answers == [failed, failed]
    assert [(single.sent, single.stopped) for single in made] == [([], False), ([2], True)]
