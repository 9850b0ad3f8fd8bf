"""Long work in slices: in order, with turns for others, and no failure goes unnoticed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest

from agents.reader import slices
from agents.reader.slices import Slices
from penstock.virtual_loop import run


def _steps(done: list[str], name: str, count: int) -> Iterator[None]:
    for number in range(count):
        yield
        done.append(f"{name}{number}")


def test_others_have_their_turn_and_the_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    async def main() -> None:
        done: list[str] = []
        work = Slices(_raise)
        work.add(_steps(done, "a", 2))
        work.add(_steps(done, "b", 1))
        turns = 0
        while len(work):
            turns += 1
            await asyncio.sleep(0)
        assert (done, turns) == (["a0", "a1", "b0"], 3)

    run(main())


def test_short_work_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", math.inf)
    done: list[str] = []
    work = Slices(_raise)
    work.add(_steps(done, "a", 1))
    assert (done, len(work)) == (["a0"], 0)


def test_step_that_fails_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", math.inf)
    problems: list[BaseException] = []

    def failing() -> Iterator[None]:
        yield
        raise ValueError("a bug")

    Slices(problems.append).add(failing())
    assert [str(problem) for problem in problems] == ["a bug"]


def _raise(problem: BaseException) -> None:
    raise problem
