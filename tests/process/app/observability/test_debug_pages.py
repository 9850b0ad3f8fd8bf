"""Profiles and dumps: what they show, and that they need a setting."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest

from app.observability import stack_dumps
from app.observability.admin_server import AdminConfig, AdminServer
from app.observability.debug_pages import seconds_of
from app.observability.metrics import Metrics
from app.observability.profiler import Busy, Profiler, collapse, report
from tests.support.fakes import MemoryContract
from tests.support.processes import free_port
from web.pages.subscribers import SubscribersPage

PAGES = ("/debug/profile", "/debug/stacks", "/debug/tasks")
LIMIT_S = 20.0
SUBSCRIBERS = SubscribersPage(MemoryContract(), lambda _namespace, _channel: None)


@asynccontextmanager
async def serving(debug: bool) -> AsyncIterator[str]:
    server = AdminServer(
        AdminConfig("127.0.0.1", free_port(), debug), Metrics(), lambda: (True, {}), lambda: (True, {}), SUBSCRIBERS
    )
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.config.port}"
    finally:
        await server.stop(5)


@contextmanager
def waiting_thread(name: str) -> Iterator[None]:
    """A thread that stands in `stand_here`."""
    stop, stands = threading.Event(), threading.Event()

    def stand_here() -> None:
        stands.set()
        stop.wait(LIMIT_S)

    thread = threading.Thread(target=stand_here, name=name)
    thread.start()
    stands.wait(LIMIT_S)
    try:
        yield
    finally:
        stop.set()
        thread.join(LIMIT_S)


def test_stacks_name_every_thread_and_where_it_is() -> None:
    with waiting_thread("somebody"):
        text = stack_dumps.stacks()

    assert "somebody" in text
    assert "in stand_here" in text
    assert "MainThread" in text
    assert "test_stacks_name_every_thread_and_where_it_is" in text


async def inner(event: asyncio.Event) -> None:
    await event.wait()


async def outer(event: asyncio.Event) -> None:
    await inner(event)


@pytest.mark.asyncio
async def test_tasks_waiting_at_one_place_are_grouped() -> None:
    event = asyncio.Event()
    waiting = [asyncio.create_task(outer(event), name=f"waiter-{number}") for number in range(7)]
    waiting.append(asyncio.create_task(asyncio.sleep(LIMIT_S), name="sleeper"))
    await asyncio.sleep(0)

    text = stack_dumps.tasks(waiting)

    assert text.startswith("8 tasks at 2 places")
    assert "7 x waiter-0, waiter-1, waiter-2, waiter-3, waiter-4, ...\n  outer at" in text
    assert text.index("outer at") < text.index("inner at") < text.index("Event.wait at")
    assert "1 x sleeper\n  sleep at" in text
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_stack_is_one_line_with_the_outermost_call_first() -> None:
    def deeper() -> str:
        return collapse(sys._getframe())

    names = deeper().split(";")

    assert names[-1].startswith("test_debug_pages:test_stack_is_one_line")
    assert names[-1].endswith("deeper")
    assert names[-2] == "test_debug_pages:test_stack_is_one_line_with_the_outermost_call_first"
    assert " " not in deeper()
    assert collapse(None) == ""


def test_report_has_the_most_frequent_stack_first() -> None:
    assert report({"a;b": 2, "a;c": 9, "a": 2}) == "a;c 9\na 2\na;b 2\n"


@pytest.mark.asyncio
async def test_profile_shows_what_keeps_the_loop_busy_and_only_one_is_taken_at_a_time() -> None:
    profiler = Profiler()

    async def keep_busy() -> None:
        while True:
            sum(range(2_000))
            await asyncio.sleep(0)

    busy = asyncio.create_task(keep_busy())
    first = asyncio.create_task(profiler.run(0.3))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await profiler.run(0.1)
    text = await first
    busy.cancel()

    assert "keep_busy" in text
    assert all(line.rpartition(" ")[2].isdigit() for line in text.splitlines())
    assert await profiler.run(0.01) is not None


@pytest.mark.asyncio
async def test_profile_whose_reader_has_gone_does_not_block_the_next_and_stopping_ends_it() -> None:
    profiler = Profiler()
    profiler.stop()
    gone = asyncio.create_task(profiler.run(30.0))
    await asyncio.sleep(0.01)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    following = asyncio.create_task(profiler.run(30.0))
    await asyncio.sleep(0.05)
    profiler.stop()

    async with asyncio.timeout(LIMIT_S):
        assert "run_forever" in await following


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [("1", 1.0), ("0.5", 0.5), ("60", 60.0)] + [(text, None) for text in ("", "x", "0", "-1", "61", "nan", "inf")],
)
def test_seconds_of_a_profile_are_bounded(wish: str, seconds: float | None) -> None:
    assert seconds_of(wish) == seconds


@pytest.mark.asyncio
async def test_without_the_setting_there_are_no_such_pages() -> None:
    async with serving(debug=False) as url, aiohttp.ClientSession() as client:
        for page in PAGES:
            async with client.get(url + page) as answer:
                assert answer.status == 404
        async with client.get(url) as answer:
            assert "debug" not in await answer.text()


@pytest.mark.asyncio
async def test_pages_show_stacks_tasks_and_profiles() -> None:
    async with serving(debug=True) as url, aiohttp.ClientSession() as client:
        async with client.get(url) as answer:
            index = await answer.text()
            assert all(page in index for page in PAGES)
        async with client.get(f"{url}/debug/stacks") as answer:
            assert "MainThread" in await answer.text()
        async with client.get(f"{url}/debug/tasks") as answer:
            assert "test_pages_show_stacks_tasks_and_profiles" in await answer.text()
        async with client.get(f"{url}/debug/profile?seconds=1000") as answer:
            assert (answer.status, "up to 60" in await answer.text()) == (400, True)
        taking = asyncio.create_task(_get(client, f"{url}/debug/profile?seconds=0.5"))
        await asyncio.sleep(0.1)
        assert (await _get(client, f"{url}/debug/profile?seconds=0.5"))[0] == 409
        status, text = await taking
        assert status == 200
        assert "run_forever" in text


async def _get(client: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with client.get(url) as answer:
        return answer.status, await answer.text()
