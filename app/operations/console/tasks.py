"""What people have started in the console and what takes a while: redrives and seeks of this process. In memory only;
the audit topic has how each of them ended."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from knative.errors import NotReadyError, PenstockError, UsageError
from web.console.acts import Task

log = structlog.get_logger(__name__)

LEAVING = "the worker is stopping"


@dataclass
class Running:
    """A task. The work that carries it out sets these fields."""

    who: str
    act: str
    what: str
    progress: Callable[[], str] = lambda: ""
    stop: Callable[[str], None] | None = None  #: takes why; None: it cannot end early
    problem: str | None = None
    began_s: float = field(default_factory=time.time)
    ended_s: float | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def end_early(self, why: str) -> None:
        """Call `stop`, once only: a second call would abort what is in flight."""
        stop, self.stop = self.stop, None
        if stop is not None:
            stop(why)

    @property
    def task(self) -> Task:
        """Returns the task as a value for pages."""
        can_stop = self.ended_s is None and self.stop is not None
        return Task(
            self.id, self.who, self.act, self.what, self.began_s, self.ended_s, self.progress(), self.problem, can_stop
        )


class Tasks:
    """The tasks of this process. `ended` is called with each task that has ended. Event loop only."""

    def __init__(self, ended: Callable[[Running], Awaitable[None]], kept_max: int = 20) -> None:
        self._ended, self._kept_max = ended, kept_max
        self.is_leaving = False
        self._tasks: list[Running] = []
        self._handles: set[asyncio.Task[None]] = set()

    async def start(
        self, running: Running, work: Callable[[Running], Awaitable[None]], record: Callable[[], Awaitable[None]]
    ) -> None:
        """Start it once `record` has returned. Raises NotReadyError while another one does the same kind of thing here,
        and what `record` raises."""
        if self.is_leaving:
            raise NotReadyError("This worker is stopping.", "Try again when a worker runs.")
        for other in self._tasks:
            if other.act == running.act and other.ended_s is None:
                raise NotReadyError(
                    f"{other.who} has already started this, and it has not ended: {other.what}.",
                    "Wait until it has ended, or stop it.",
                )

        over = [other for other in self._tasks if other.ended_s is not None]
        for other in over[: max(0, len(self._tasks) + 1 - self._kept_max)]:
            self._tasks.remove(other)
        self._tasks.append(running)  # before the record, or two at once would both have one
        try:
            await record()
        except BaseException:
            self._tasks.remove(running)
            raise
        handle = asyncio.get_running_loop().create_task(self._run(running, work))
        self._handles.add(handle)
        handle.add_done_callback(self._handles.discard)

    async def _run(self, running: Running, work: Callable[[Running], Awaitable[None]]) -> None:
        try:
            await work(running)
        except PenstockError as problem:
            running.problem = str(problem)
        except TimeoutError:
            running.problem = (
                "The operation took too long. Check `penstock status` and `penstock lag` before you try again."
            )
        except Exception:
            log.exception("an act of the console has failed", what=running.what)
            running.problem = "The operation failed. The log of the worker has the reason."
        text = running.progress()
        running.progress, running.stop = lambda: text, None  # those of a redrive hold its ledger
        running.ended_s = time.time()
        await self._ended(running)

    @property
    def newest_first(self) -> list[Task]:
        """Returns the tasks as values for pages."""
        return [running.task for running in reversed(self._tasks)]

    async def stop_one(self, id_: str, record: Callable[[Running], Awaitable[None]]) -> None:
        """Have a task end early, once `record` has returned. Raises UsageError when it cannot."""
        running = next((running for running in self._tasks if running.id == id_ and running.task.can_stop), None)
        if running is None:
            raise UsageError("This has already ended, or is about to end.", "")
        await record(running)
        running.end_early("it was stopped in the console")

    async def leave(self, limit_s: float) -> None:
        """Start nothing more, and have all tasks end early. Returns when they have, at the latest after `limit_s`."""
        self.is_leaving = True
        for running in self._tasks:
            running.end_early(LEAVING)
        if self._handles:
            await asyncio.wait(self._handles, timeout=limit_s)
