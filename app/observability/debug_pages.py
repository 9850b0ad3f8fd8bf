"""Debug pages at the admin port for a process that is slow or hangs: profile, stacks, tasks. Off by default.

They expose how the process works and cost some CPU, so enable them only while you debug. They never show event data.
"""

from __future__ import annotations

import asyncio
import math

from aiohttp import web as http

from app.observability import stack_dumps
from app.observability.profiler import SECONDS_MAX, Busy, Profiler

SECONDS_DEFAULT = 5.0
INDEX = f"""\
/debug/profile?seconds=N  sampled stacks of the event loop's thread with their counts (at most {SECONDS_MAX:.0f} s)
/debug/stacks             the stack of every thread
/debug/tasks              where every asyncio task waits
"""


class DebugPages:
    """The debug pages. Call `add_to` before the server starts, and `stop` when it stops."""

    def __init__(self) -> None:
        self._profiler = Profiler()

    def add_to(self, router: http.UrlDispatcher) -> None:
        """Add the pages to `router`."""
        router.add_get("/debug/profile", self._profile)
        router.add_get("/debug/stacks", self._stacks)
        router.add_get("/debug/tasks", self._tasks)

    def stop(self) -> None:
        """End a profile that is running."""
        self._profiler.stop()

    async def _profile(self, request: http.Request) -> http.Response:
        wish = request.query.get("seconds", str(SECONDS_DEFAULT))
        seconds = seconds_of(wish)
        if seconds is None:
            text = f"seconds={wish[:80]!r} is not a number above 0 and up to {SECONDS_MAX:.0f}.\n"
            return http.Response(text=text, status=400)
        try:
            return http.Response(text=await self._profiler.run(seconds))
        except Busy:
            return http.Response(text="Another profile is running; try again when it has ended.\n", status=409)

    async def _stacks(self, _request: http.Request) -> http.Response:
        return http.Response(text=stack_dumps.stacks())

    async def _tasks(self, _request: http.Request) -> http.Response:
        return http.Response(text=stack_dumps.tasks(asyncio.all_tasks()))


def seconds_of(wish: str) -> float | None:
    """Returns how long to profile, in seconds; None if the text is not valid."""
    try:
        seconds = float(wish)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds <= SECONDS_MAX else None
