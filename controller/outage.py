"""Says in conditions that Kafka is away, in a process that has never reached it.

What a leader must remember is in Kafka, so a process that has not read it decides nothing: its election has no lock to
win. It writes statuses only, and only with the Lease. It holds the Lease only while it writes, because another
controller may reach Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from controller.place import Place
from controller.plan.actions import WriteStatus
from controller.status.problems import ProblemLog

LOOK_S = 0.5
PAUSE_S = 10.0  #: after a write; other candidates ask for the Lease every two seconds
STOP_S = 3.0  #: for the current step, and again for giving up the Lease


class _NoLock:
    """The lock in Kafka, of a process that cannot have it. See `controller.election.Election`."""

    held = False
    term = 0

    def start(self) -> None:
        """There is nothing to join."""

    async def stop(self, limit_s: float) -> None:
        """There is nothing to leave."""

    async def confirm(self) -> bool:
        """Returns False: nobody confirms this lock."""
        return False


class OutageAtStart:
    """Writes statuses that say that Kafka is away, from `start` to `stop`. Event loop only."""

    def __init__(self, place: Place, crashed: Callable[[BaseException], None]) -> None:
        """`place`: nobody else has it. `crashed` is called with the exception that ended this."""
        self.why: str | None = None  #: Kafka is away; None = nothing is said yet
        self._place = place
        self._crashed = crashed
        self._election = place.elect(lambda _: _NoLock(), lambda _: None)
        self._problems = ProblemLog(place.sink)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns at once. Raises UsageError if the place cannot be used."""
        await self._place.open()
        await self._place.source.start(lambda: None)
        self._task = asyncio.create_task(self._run(), name="outage")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Give up the Lease, so that a controller can have it at once."""
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping.set()
        _, pending = await asyncio.wait([task], timeout=STOP_S)
        for unfinished in pending:
            unfinished.cancel()
        await self._election.stop(STOP_S)
        await self._place.source.stop()
        await self._place.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._crashed(problem)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            if await self._news():
                self._election.start()
                await self._write()
                await self._election.stop(STOP_S)
                await self._pause(PAUSE_S)
            else:
                await self._pause(LOOK_S)

    async def _write(self) -> None:
        """Wait for the Lease, as long as there is something to write with it."""
        while not self._stopping.is_set() and (news := await self._news()):
            if self._place.reports_outage():
                await self._place.sink.write(news, (), time.time())
                return
            await self._pause(LOOK_S)

    async def _news(self) -> list[WriteStatus]:
        scan = await self._place.source.scan()
        await self._problems.report(scan.problems)
        if self.why is None or not scan.complete:  # whose a Trigger is depends on its Broker
            return []
        return self._place.source.outage_statuses(self.why, ())

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
