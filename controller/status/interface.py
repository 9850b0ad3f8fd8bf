"""The interface through which the controller writes statuses, to a directory or to a cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from controller.model import FileProblem, Record
from controller.plan.actions import WriteStatus


class Sink(Protocol):
    """Where statuses go. Event loop only; `check` comes first."""

    async def check(self) -> None:
        """Raises UsageError if nothing can be written there."""

    async def begin(self) -> None:
        """Begin a term: other processes may have written."""

    async def write(
        self,
        statuses: Sequence[WriteStatus],
        retained: Sequence[Record],
        now: float,
        only: Collection[str] | None = None,
    ) -> frozenset[str]:
        """Write those that have changed. A failure is logged, and tried again at a later call. `retained`: records of
        objects whose status stays as it is. `now`: Unix seconds. `only`: uids that they are about; None: all. Returns
        the uids of those that must be tried again."""

    async def write_problems(self, problems: Sequence[FileProblem]) -> None:
        """Write the problems of the source. Raises OSError."""
