"""What Penstock needs of Faust's internals, on the Faust that is installed: red when another version changed them."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from faust.app.base import BootStrategy
from faust.cli.base import cli
from faust.transport.consumer import Consumer
from faust.types import TP
from mode import Service
from mode.threads import ServiceThread

from tables.faust_support import (
    MemoryApp,
    OffsetControlApp,
    add_table,
    crash_of,
    end_agent,
    end_app,
    forget_service,
    leave_unacknowledged,
    put_now,
    register_web_driver,
    replace_commands,
)

_LIMIT_S = 30.0


class _NoKafka(BootStrategy):
    enable_kafka_consumer = False
    enable_kafka_producer = False
    enable_web = False


class _App(MemoryApp):
    BootStrategy = _NoKafka


class _Part(Service):
    pass


class _Table(faust.Table):  # type: ignore[type-arg]
    pass


def _app(kind: type[MemoryApp] = _App, folder: Path | None = None) -> Any:
    return kind(
        "support-test",
        broker="kafka://127.0.0.1:1",
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        datadir=folder or Path(tempfile.gettempdir()) / "penstock-never-made",
    )


def _nodes(node: Any) -> Iterator[Any]:
    """What a tree of services holds, from its root."""
    yield node.data
    for child in node.children:
        yield from _nodes(child) if hasattr(child, "children") else (child,)


async def _close(app: Any) -> None:
    await app.stop()
    app.consumer._thread.thread_loop.close()  # Faust makes it for a thread that an app without Kafka never starts


@pytest.mark.asyncio
async def test_app_makes_no_folders(tmp_path: Path) -> None:
    app = _app(folder=tmp_path / "data")
    await app.start()
    try:
        assert not (tmp_path / "data").exists()
    finally:
        await _close(app)


@pytest.mark.asyncio
async def test_service_that_has_left_is_not_kept() -> None:
    app = _app()
    await app.start()
    try:
        part = _Part()
        await app.add_runtime_dependency(part)
        assert part in app._children
        assert part in list(_nodes(app.beacon))
        await part.stop()
        forget_service(app, part)
        assert part not in app._children
        assert part not in list(_nodes(app.beacon))
        forget_service(app, part)
    finally:
        await _close(app)


@pytest.mark.asyncio
async def test_agent_that_has_left_is_not_kept() -> None:
    app = _app()
    app.finalize()
    await app.start()
    app.flow_control.resume()
    try:
        channel, seen = app.channel(), asyncio.Event()

        async def follow(stream: Any) -> None:
            async for _ in stream:
                seen.set()

        agent = app.agent(channel, name="one")(follow)
        await agent.start()
        await channel.put(1)
        await asyncio.wait_for(seen.wait(), _LIMIT_S)
        assert agent.name in app.agents
        assert await end_agent(app, agent, _LIMIT_S)
        assert agent.name not in app.agents
        assert agent not in list(_nodes(app.agents.beacon))
        assert agent not in list(_nodes(app.topics.beacon))
    finally:
        await _close(app)


@pytest.mark.asyncio
async def test_what_is_put_without_waiting_comes_in_order() -> None:
    app = _app()
    app.finalize()
    await app.start()
    app.flow_control.resume()
    try:
        channel, seen, done = app.channel(maxsize=0), [], asyncio.Event()

        async def follow(stream: Any) -> None:
            async for value in stream:
                seen.append(value)
                if value == 9_999:
                    done.set()

        agent = app.agent(channel, name="one")(follow)
        await agent.start()
        for value in range(10_000):
            put_now(channel, value)
        await asyncio.wait_for(done.wait(), _LIMIT_S)
        assert seen == list(range(10_000))
        assert await end_agent(app, agent, _LIMIT_S)
        put_now(channel, 10_000)  # nobody reads any more
    finally:
        await _close(app)


@pytest.mark.asyncio
async def test_crash_is_noticed_with_its_reason() -> None:
    app = _app()
    await app.start()
    try:
        problem = RuntimeError("broken")
        await app.crash(problem)
        assert await asyncio.wait_for(crash_of(app), _LIMIT_S) is problem
    finally:
        await _close(app)


@pytest.mark.asyncio
async def test_loop_of_the_consumers_thread_is_closed_after_the_thread() -> None:
    app = _app()
    await app.start()
    thread: Any = app.consumer._thread
    assert isinstance(thread, ServiceThread)
    assert thread._close_thread_loop_on_stop
    await end_app(app, _LIMIT_S, _LIMIT_S)
    assert thread.thread_loop.is_closed()


@pytest.mark.asyncio
async def test_thread_that_has_just_begun_is_ended_too() -> None:
    """Faust does not stop it: its service has not started yet."""
    app = _app()
    thread: Any = app.consumer._thread
    begun, go_on = asyncio.Event(), threading.Event()
    here = asyncio.get_running_loop()

    async def late() -> None:
        here.call_soon_threadsafe(begun.set)
        go_on.wait(_LIMIT_S)
        thread._started.set()

    thread._default_start = late
    starting = asyncio.ensure_future(thread.start())
    await asyncio.wait_for(begun.wait(), _LIMIT_S)
    starting.cancel()
    ending = asyncio.ensure_future(end_app(app, _LIMIT_S, _LIMIT_S))
    for _ in range(10):
        await asyncio.sleep(0)
    go_on.set()
    await ending
    assert not thread._thread.is_alive()
    assert thread.thread_loop.is_closed()


class _OffsetControlApp(OffsetControlApp):
    BootStrategy = _NoKafka

    async def start_offsets(self, consumer: Any, committed: Mapping[TP, int]) -> Mapping[TP, int]:
        return {}

    def offsets_to_commit(self, offsets: Mapping[TP, int]) -> Mapping[TP, int]:
        return {}


@pytest.mark.asyncio
async def test_rebalance_while_it_stops_leaves_the_client_to_its_thread() -> None:
    app = _app(_OffsetControlApp)
    closed: list[int] = []

    async def close() -> None:
        closed.append(threading.get_ident())

    part = SimpleNamespace(close=close)
    app.consumer._thread._consumer = SimpleNamespace(_client=part, _coordinator=part)
    app._stopped.set()
    try:
        await app._on_partitions_revoked({TP("t", 0)})
        await app._on_partitions_assigned({TP("t", 0)}, 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert closed == [], "the client of another thread's loop was closed in this one"
    finally:
        app.consumer._thread.thread_loop.close()


@pytest.mark.asyncio
async def test_consumer_asks_the_app_for_offsets() -> None:
    """Its whole way is covered by tests that kill processes; here, that Faust still calls what is overridden."""
    app = _app(_OffsetControlApp)
    consumer = app.consumer
    try:
        ours: Any = type(consumer)
        assert ours._commit is not ours.__mro__[1]._commit
        assert not await consumer._commit({TP("t", 0): 3}), "nothing is to be committed, so Kafka is not asked"
        assert "_commit" in Consumer._commit_offsets.__code__.co_names
        assert "seek_to_committed" in Consumer.perform_seek.__code__.co_names
    finally:
        consumer._thread.thread_loop.close()


def test_table_of_a_class_of_its_own_belongs_to_the_app() -> None:
    app = _app()
    table = add_table(app, _Table, name="rows", partitions=1)
    assert type(table) is _Table
    assert app.tables["rows"] is table
    assert table.beacon.parent is app.tables.beacon


def test_event_that_is_marked_is_not_acknowledged() -> None:
    assert "acked" in Consumer.ack.__code__.co_names

    class Message:
        acked = False

    class Event:
        message = Message()

    leave_unacknowledged(Event)
    assert Event.message.acked


def test_web_driver_is_found_by_its_name() -> None:
    from faust.web.drivers import by_name

    register_web_driver("test", "web.http.driver:Web")
    assert by_name("test").__module__ == "web.http.driver"


def test_command_takes_the_place_of_fausts() -> None:
    import click
    import faust.cli.faust  # noqa: F401  # it registers Faust's own commands

    before = cli.commands["tables"]
    try:
        ours = click.Command("tables")
        replace_commands(ours)
        assert cli.commands["tables"] is ours
    finally:
        replace_commands(before)
