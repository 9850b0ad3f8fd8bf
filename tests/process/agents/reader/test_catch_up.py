"""The thread of the catch-up consumer, without Kafka."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agents.config import DeliveryConfig
from agents.reader.catch_up import CatchUp, Taken
from agents.reader.ranges import Range
from tables.kafka.loop_thread import LoopThread

pytestmark = pytest.mark.asyncio

LIMIT_S = 180.0


class Owner:
    """Nobody is behind."""

    any_behind = False

    def __init__(self) -> None:
        self.problems: list[BaseException] = []

    def next_turn(self) -> tuple[int, int] | None:
        return None

    def take_missed(self, ranges: list[Range]) -> Taken:
        raise AssertionError(ranges)

    def skip(self, number: int, low: int) -> None:
        raise AssertionError(number)

    def fatal(self, problem: BaseException) -> None:
        self.problems.append(problem)


async def test_catch_up_may_be_stopped_before_its_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    may_run, ended = threading.Event(), asyncio.Event()

    class Late(LoopThread):
        def _guarded(self) -> None:
            assert may_run.wait(LIMIT_S)
            super()._guarded()
            self.call_soon(ended.set)

    monkeypatch.setattr("agents.reader.catch_up.LoopThread", Late)
    owner = Owner()
    catch_up = CatchUp("t", "c", DeliveryConfig({"bootstrap.servers": "127.0.0.1:1"}), owner)
    catch_up.wake()
    stopping = asyncio.create_task(catch_up.stop())
    await asyncio.sleep(0)
    may_run.set()
    async with asyncio.timeout(LIMIT_S):
        await stopping
        await ended.wait()
    assert owner.problems == []
