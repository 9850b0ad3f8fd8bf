"""Threads beside the event loop: results, crashes and ends reach the loop, and a closed loop stops no thread."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tables.kafka.loop_thread import LoopThread, call_in_thread, call_soon

_LIMIT_S = 30.0


def _until_stopped(thread: LoopThread) -> None:
    assert thread.stopping.wait(_LIMIT_S)


@pytest.mark.asyncio
async def test_call_from_the_thread_runs_on_the_loop_and_returns_its_result() -> None:
    results: list[object] = []
    crashes: list[BaseException] = []

    async def later(number: int) -> int:
        return number + 1

    def run() -> None:
        results.append(thread.call(threading.get_ident))
        results.append(thread.begin(later(1)).result(_LIMIT_S))
        thread.call_soon(results.append, "soon")

    thread = LoopThread(run, "test", crashes.append)
    assert not thread.started
    thread.start()
    while "soon" not in results:
        await asyncio.sleep(0)
    assert await thread.stop(_LIMIT_S)
    assert (results, crashes) == ([threading.get_ident(), 2, "soon"], [])


@pytest.mark.asyncio
async def test_what_ends_the_thread_reaches_crashed_on_the_loop() -> None:
    crashes: list[tuple[str, int]] = []

    def run() -> None:
        raise RuntimeError("broken")

    thread = LoopThread(run, "test", lambda problem: crashes.append((str(problem), threading.get_ident())))
    thread.start()
    assert await thread.stop(_LIMIT_S)
    assert crashes == [("broken", threading.get_ident())]


@pytest.mark.asyncio
async def test_error_of_a_function_on_the_loop_is_raised_in_the_thread() -> None:
    crashes: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    thread = LoopThread(lambda: thread.call(fail), "test", lambda problem: crashes.append(str(problem)))
    thread.start()
    assert await thread.stop(_LIMIT_S)
    assert crashes == ["no"]


@pytest.mark.asyncio
async def test_thread_that_does_not_end_is_left_behind() -> None:
    let_go = threading.Event()
    thread = LoopThread(lambda: _done(let_go), "test", lambda _: None)
    thread.start()
    try:
        assert not await thread.stop(0.01)
        assert thread.stopping.is_set()
    finally:
        let_go.set()
    assert await thread.stop(_LIMIT_S)


@pytest.mark.asyncio
async def test_one_that_was_never_started_is_stopped_at_once() -> None:
    assert await LoopThread(lambda: None, "test", lambda _: None).stop(0.0)


def test_thread_outlives_its_loop() -> None:
    """As at the end of a process: the loop is closed, and the thread still wants to call it."""
    loop = asyncio.new_event_loop()
    crashes: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        _until_stopped(thread)
        while not loop.is_closed():
            time.sleep(0.001)
        thread.call_soon(crashes.append, RuntimeError("too late"))
        ended.set()

    thread = LoopThread(run, "test", crashes.append)

    async def start() -> None:
        thread.start()

    loop.run_until_complete(start())
    thread.stopping.set()
    loop.close()
    assert ended.wait(_LIMIT_S)
    assert crashes == []


def test_closed_loop_needs_no_call() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    call_soon(loop, print, "not printed")


@pytest.mark.asyncio
async def test_call_in_a_thread_gives_its_result_or_its_exception() -> None:
    assert await call_in_thread(lambda: 3, _LIMIT_S, "test") == 3
    with pytest.raises(ZeroDivisionError):
        await call_in_thread(lambda: 1 // 0, _LIMIT_S, "test")


@pytest.mark.asyncio
async def test_call_that_takes_too_long_is_left_behind() -> None:
    let_go = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await call_in_thread(lambda: _done(let_go), 0.01, "test")
    finally:
        let_go.set()


def _done(event: threading.Event) -> None:
    assert event.wait(_LIMIT_S)


@pytest.mark.asyncio
async def test_cancellation_counts_even_when_the_result_is_on_its_way() -> None:
    """A task that swallows one never ends."""
    call = asyncio.create_task(call_in_thread(lambda: 1, _LIMIT_S, "quick"))
    await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name == "quick":
            thread.join(_LIMIT_S)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
