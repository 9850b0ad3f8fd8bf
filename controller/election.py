"""The interface of a leader election, as the controller needs it."""

from __future__ import annotations

from typing import Protocol


class Election(Protocol):
    """Elects one of several controllers. Event loop only."""

    @property
    def held(self) -> bool:
        """Whether this process leads, as far as it knows."""

    @property
    def term(self) -> int:
        """How often this process became the leader. It changes if leadership was lost in between."""

    def start(self) -> None:
        """Stand for election; returns at once."""

    async def stop(self, limit_s: float) -> None:
        """Give up leadership, so that another process can have it at once."""

    async def confirm(self) -> bool:
        """Returns whether this process leads, as those confirm that elect the leader."""
