"""Threads of the console that read Kafka: two at a time, even when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from app.operations.console.events import EventReads
from knative.errors import NotReadyError
from web.console.limits import Limits


@pytest.mark.asyncio
async def test_thread_that_is_left_behind_keeps_its_slot_until_it_ends() -> None:
    tables: Any = None
    reads, go, runs = EventReads("penstock", tables, tables, {}, Limits()), threading.Event(), []
    try:
        for _ in range(2):
            with pytest.raises(NotReadyError, match="did not answer in time"):
                await reads.in_thread(go.wait, 0.05)
        with pytest.raises(NotReadyError, match="too many people read at the same time"):
            await reads.in_thread(lambda: runs.append(1), 0.2)
        assert runs == []
    finally:
        go.set()
    async with asyncio.timeout(60):
        await reads.in_thread(lambda: runs.append(2), 60)
    assert runs == [2]
