"""The state directory as the place that statuses are written to: `StatusFiles` in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from controller.model import FileProblem, Record
from controller.plan.actions import WriteStatus
from controller.status.files import StatusFiles


class StateDirectory:
    """See `controller.status.interface`."""

    def __init__(self, root: Path) -> None:
        self._files = StatusFiles(root)

    async def check(self) -> None:
        """Create the directory. Raises UsageError if it cannot be written."""
        await asyncio.to_thread(self._files.check)

    async def begin(self) -> None:
        """Begin a term: compare with the files again, as other processes may have written them."""
        self._files.forget()

    async def write(
        self,
        statuses: Sequence[WriteStatus],
        retained: Sequence[Record],
        now: float,
        only: Collection[str] | None = None,
    ) -> frozenset[str]:
        """Write one file for each object; those of other objects are removed."""

        def write() -> None:
            self._files.write_all(statuses, now)
            if only is None:
                self._files.keep_only([*statuses, *retained])

        await asyncio.to_thread(write)
        return frozenset()  # a decision about all of them comes soon

    async def write_problems(self, problems: Sequence[FileProblem]) -> None:
        """Write problems.json."""
        await asyncio.to_thread(self._files.write_problems, problems)
