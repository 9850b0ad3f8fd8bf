"""When the state that all tabs share is taken again."""

from __future__ import annotations

import pytest

from tests.support.console import MemoryReads
from web.console.snapshots import Snapshots
from web.console.state import State


class _SlowReads(MemoryReads):
    """A reading takes a moment."""

    now_s = 0.0

    async def state(self) -> State:
        self.now_s += 0.01
        return await super().state()


@pytest.mark.asyncio
async def test_every_turn_has_a_new_state_that_all_tabs_share() -> None:
    reads = _SlowReads()
    snapshots = Snapshots(reads, 2.0, lambda: reads.now_s)
    taken = []
    for turn_s in (0.0, 2.0, 3.995, 6.0):  # a timer may be early
        for late_s in (0.0, 0.1, 1.0):
            reads.now_s = max(reads.now_s, turn_s + late_s)
            await snapshots.get()
        taken.append(reads.taken)
    snapshots.forget()

    assert taken == [1, 2, 3, 4]
