"""Notices that files have changed, such as a certificate that was renewed. A mounted Secret is replaced as a whole, by
links; so what counts is the file that a path leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from app.timing import LOOK_S
from knative.errors import PenstockError
from tables.file_signatures import signature

log = structlog.get_logger(__name__)

T = TypeVar("T")


class FileWatch(Generic[T]):
    """Reads the files after each change, in a thread, and then uses them. What was used before stays if that fails."""

    def __init__(self, what: str, paths: Sequence[Path], read: Callable[[], T], use: Callable[[T], None]) -> None:
        """Uses the files for the first time. `what`: names them in the log. `read` and `use` raise PenstockError for
        files that are not valid, and this too."""
        self._what, self._paths, self._read, self._use = what, tuple(paths), read, use
        self._seen = signature(self._paths)  # before they are read: what changes meanwhile is read again
        self._use(self._read())
        self._problem: str | None = None

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Use the files if they have changed, or if they could not be used."""
        seen = signature(self._paths)
        if seen == self._seen and self._problem is None:
            return
        self._seen = seen
        try:
            content = await asyncio.to_thread(self._read)
            if signature(self._paths) != seen:  # they have changed while they were read: the next look reads them
                return
            self._use(content)
        except (PenstockError, OSError) as problem:
            # Two files are not replaced at the same instant: the next look may find both.
            if str(problem) != self._problem:
                log.error("changed files are not used", what=self._what, reason=str(problem))
            self._problem = str(problem)
            return
        self._problem = None
        log.info("changed files are used", what=self._what)
