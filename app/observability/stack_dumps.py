"""The stacks of a process's threads and its asyncio tasks as text.

Shows code locations only, never values of variables, which may be data of events.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any


def stacks() -> str:
    """Returns every thread with its stack, the innermost call last."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    parts = []
    for ident, frame in sorted(sys._current_frames().items()):
        thread = threads.get(ident)
        name = "not started by Python" if thread is None else thread.name + (" (daemon)" if thread.daemon else "")
        parts.append(f"Thread {ident} {name}\n{''.join(traceback.format_stack(frame))}")
    return f"{len(parts)} threads\n\n" + "\n".join(parts)


def tasks(all_tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Returns the tasks grouped by where they wait, the most frequent place first; the innermost `await` last."""
    places: dict[str, list[str]] = defaultdict(list)
    count = 0
    for task in all_tasks:
        count += 1
        places["".join(f"  {line}\n" for line in waits(task.get_coro())) or "  (no stack)\n"].append(task.get_name())
    parts = []
    for place, names in sorted(places.items(), key=lambda item: (-len(item[1]), item[0])):
        more = ", ..." if len(names) > 5 else ""
        parts.append(f"{len(names)} x {', '.join(sorted(names)[:5])}{more}\n{place}")
    return f"{count} tasks at {len(parts)} places\n\n" + "\n".join(parts)


def waits(awaited: Any) -> Iterator[str]:
    """Yields where a coroutine waits: one line for it and for each awaitable below it."""
    seen = 0
    while awaited is not None and seen < 100:
        seen += 1
        frame: FrameType | None = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            yield f"{type(awaited).__module__}.{type(awaited).__qualname__}"
            return
        yield f"{_place(frame.f_code, frame.f_lineno)}"
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")


def _first(thing: Any, *names: str) -> Any:
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)


def _place(code: CodeType, line: int) -> str:
    return f'{code.co_qualname} at "{code.co_filename}", line {line}'
