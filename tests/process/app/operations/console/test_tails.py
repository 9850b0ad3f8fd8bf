"""Which tails the console keeps: those that somebody looks at. Kafka does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.operations.console.events import EventReads
from tests.support.processes import free_port
from web.console.limits import Limits


@pytest.mark.asyncio
async def test_tail_that_nobody_looks_at_is_dropped() -> None:
    tables: Any = None
    kafka = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}
    reads = EventReads("penstock", tables, tables, kafka, Limits(every_s=0.01))
    await reads.tail("orders", "")
    await asyncio.sleep(0.2)
    await reads.tail("bills", "")
    assert [topic for topic, _ in reads._tails] == ["bills"]
    reads.rest()
    assert reads._tails == {}
