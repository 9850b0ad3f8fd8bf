"""The one place that uses Faust's internals: no other module uses names that Faust does not promise.

Faust and its library mode are pinned to the versions this was written for. `tests/unit/tables/test_faust_support.py`
fails when another version no longer works like this.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import faust
import structlog
from faust.transport.base import Transport
from faust.transport.consumer import Consumer
from faust.types import TP
from faust.web.drivers import DRIVERS

from tables.timing import POLL_S

log = structlog.get_logger(__name__)

_QUIET = logging.getLogger("faust.transport")  # like Faust's own classes, at level debug only

TableT = TypeVar("TableT", bound=faust.Table)  # type: ignore[type-arg]

# -- apps --------------------------------------------------------------------------------------------------------------


class _Unused:
    """Replaces a class of Faust that is never used, and that would import an HTTP or Kafka client."""


class MemoryApp(faust.App):
    """Base class of apps with `store="memory://"`, which keep everything in memory and in Kafka."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, HttpClient=_Unused, **options)

    def _create_directories(self) -> None:
        """Create none. Faust would create three at each start, for a store that Penstock does not use, and leave them
        in the temporary folder of the machine."""


class _NoConsumer(Consumer):
    """Faust asks each app for its consumer, even if it must not start it."""


_NoConsumer.__abstractmethods__ = frozenset()  # as far as it comes without a client


class _NoClients(Transport):
    Consumer = _NoConsumer
    driver_version = "none"


class ClientlessApp(MemoryApp):
    """An app whose channels are all in memory. It does not import Faust's Kafka client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, PartitionAssignor=_Unused, LeaderAssignor=_Unused, **options)

    def _new_transport(self) -> Any:
        return _NoClients(self.conf.broker_consumer, self)


class OffsetControlApp(MemoryApp):
    """An app that decides itself where its consumer begins to read, and how far it commits."""

    @abstractmethod
    async def start_offsets(self, consumer: Any, committed: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns where to begin, for the partitions where that is not the committed offset."""

    @abstractmethod
    def offsets_to_commit(self, offsets: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns what to commit of that which Faust proposes."""

    def _new_transport(self) -> Any:
        return offset_control_transport()(self.conf.broker_consumer, self)

    def _on_rebalance_when_stopped(self) -> None:
        """The consumer's thread closes its client itself. Faust would close it here as well, from this thread: uvloop
        may then crash the process with a segmentation fault."""


@cache
def offset_control_transport() -> Any:
    """Returns the transport. It is made when it is used: Faust's driver imports a Kafka client that most processes do
    not need."""
    from faust.transport.drivers import aiokafka as driver

    class ConsumerThread(driver.AIOKafkaConsumerThread):
        logger = _QUIET

        def on_crash(self, msg: str, *fmt: Any, **_: Any) -> None:
            """Faust prints a traceback here. The app crashes too, and who runs it says why."""
            log.debug("the thread of a consumer has crashed", reason=msg.format(*fmt))

        async def on_thread_stop(self) -> None:
            try:
                await super().on_thread_stop()
            except asyncio.CancelledError:
                # While a broker is away, aiokafka's fetcher ends its own `close` by the fetch that it cancels, and the
                # connections stay open. Without this the thread ends with a traceback, and Faust waits for it.
                if self._consumer is not None:
                    await self._consumer._client.close()

    class OffsetControlConsumer(driver.Consumer):
        logger = _QUIET

        def _new_consumer_thread(self) -> Any:
            return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

        async def perform_seek(self) -> None:
            # Faust calls this at the end of a rebalance, while the fetcher may already run, and empties the queues of
            # all streams after it: records that were fetched in between would be lost. So the fetcher waits here;
            # Faust starts it again after it has emptied them.
            if self.flow_active:
                self.stop_flow()
                for _ in range(20):  # turns of the loop: more than the fetcher needs to hand over what it holds
                    await asyncio.sleep(0)
            await super().perform_seek()

        async def seek_to_committed(self) -> Mapping[TP, int]:
            # Faust calls this after each rebalance, when tables are recovered: the only place where other offsets can
            # replace the committed ones before the first fetch.
            app: Any = self.app
            committed = dict(await super().seek_to_committed())
            starts = dict(await app.start_offsets(self, committed))
            if starts:
                await self.seek_wait(starts)
            return {**committed, **starts}

        async def _commit(self, offsets: Mapping[TP, int]) -> bool:
            app: Any = self.app
            due = app.offsets_to_commit(offsets)
            return await super()._commit(due) if due else False

    class OffsetControlTransport(driver.Transport):
        Consumer = OffsetControlConsumer

    return OffsetControlTransport


async def crash_of(app: Any) -> BaseException | None:
    """Wait until an app or one of its services crashes; returns why."""
    await app._crashed.wait()
    reason: BaseException | None = app.crash_reason
    return reason


async def end_app(app: Any, limit_s: float, part_limit_s: float) -> None:
    """Stop an app that has a consumer and a producer, in any state. Parts that do not stop in time are abandoned."""
    # The consumer has a thread with an event loop of its own, and closes that loop in the thread while this thread may
    # still wake it: uvloop then crashes the process with a segmentation fault. So close it here, after the thread.
    thread: Any = getattr(app.consumer, "_thread", None)
    if thread is not None:
        thread._close_thread_loop_on_stop = False
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.sleep(0)
    for agent in app.agents.values():
        agent.cancel()  # Faust's supervisor may have restarted one, and `stop` would wait for it for ever
    await _within(stopping, limit_s)
    # When one service fails to stop, Faust does not stop those after it, and these hold connections and tasks.
    for service in (app.consumer, app.producer):
        await _within(asyncio.ensure_future(service.stop()), part_limit_s)
    if thread is not None:
        await _within(asyncio.ensure_future(_end_thread(thread)), part_limit_s)
    for agent in app.agents.values():
        agent._stopped.set()  # else Faust logs that an actor has crashed when it is cancelled
    actors = [actor for agent in app.agents.values() for actor in agent._actors]
    for service in [app, *_below(app), *app.agents.values(), *actors]:
        for left in list(service._futures):
            _cancel(left, thread)
    if thread is not None and not _runs(thread):
        thread.thread_loop.close()


def _runs(thread: Any) -> bool:
    return thread._thread is not None and bool(thread._thread.is_alive())


async def _end_thread(thread: Any) -> None:
    """Waits until the thread has ended. Faust does not stop a thread that has begun but has not started its service
    yet."""
    while _runs(thread):
        if thread._started.is_set() and not thread._stopped.is_set():
            await thread.stop()
        await asyncio.sleep(POLL_S)


def _cancel(left: asyncio.Future[Any], thread: Any) -> None:
    """A loop that runs in another thread must be asked: uvloop is not made for two threads."""
    if thread is None or left.get_loop() is not thread.thread_loop or not _runs(thread):
        left.cancel()
    else:
        left.get_loop().call_soon_threadsafe(left.cancel)


def _below(service: Any) -> Iterator[Any]:
    for child in list(service._children):
        yield child
        yield from _below(child)


async def _within(stopping: asyncio.Future[Any], limit_s: float) -> None:
    """Wait up to `limit_s`. Not `wait_for`: it waits until a cancelled task has ended, and some of Faust's never do."""
    done, _ = await asyncio.wait({stopping}, timeout=limit_s)
    if not done:
        stopping.cancel()
        log.debug("a part of a Faust app did not stop in time")
    elif not stopping.cancelled() and (problem := stopping.exception()):
        log.debug("a part of a Faust app failed to stop", reason=repr(problem))


# -- services and agents that come and go while an app runs ------------------------------------------------------------


def forget_service(app: Any, service: Any) -> None:
    """Drop a stopped service that was added with `add_runtime_dependency`. Faust would keep it for ever."""
    if service in app._children:
        app._children.remove(service)
    app.beacon.discard(service.beacon)  # its node in Faust's tree of services


def put_now(channel: Any, value: Any) -> None:
    """Put a value into an in-memory channel without a limit, for who reads it. `put` of Faust is a coroutine,
    and so would need a task, and a queue before the channel."""
    for reader in channel._subscribers:
        reader.queue.put_nowait(value)


async def end_agent(app: Any, agent: Any, limit_s: float) -> bool:
    """Stop an agent and drop it. False: it did not stop in time."""
    stopping = asyncio.ensure_future(agent.stop())  # may wait for ever, for an agent that Faust has restarted
    await asyncio.sleep(0)
    agent.cancel()
    done, _ = await asyncio.wait({stopping}, timeout=limit_s)
    if not done:
        stopping.cancel()
    app.agents.pop(agent.name, None)
    app.agents.beacon.discard(agent.beacon)  # otherwise Faust's trees of services keep it for ever
    app.topics.beacon.discard(agent)
    return bool(done)


# -- tables and events -------------------------------------------------------------------------------------------------


def add_table(app: Any, table_class: type[TableT], **options: Any) -> TableT:
    """Add a table of a class of its own; `app.Table` knows one class for all."""
    table: TableT = app.tables.add(table_class(app, beacon=app.tables.beacon, **options))
    return table


def leave_unacknowledged(event: Any) -> None:
    """Have an event read again by the next app. Faust acknowledges events however their iteration ends, except those
    that are marked as acknowledged, so the group's offset stays before this one."""
    event.message.acked = True


# -- web server and command line ---------------------------------------------------------------------------------------


def register_web_driver(name: str, place: str) -> None:
    """Have `web="<name>://"` choose the web server class at `place` (`module:Class`)."""
    DRIVERS.aliases[name] = place


def replace_commands(*commands: Any) -> None:
    """Replace the commands of the same names on Faust's command line, by commands of click."""
    from faust.cli.base import cli  # needed by one kind of process only

    for command in commands:
        cli.add_command(command)
