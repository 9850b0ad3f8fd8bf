"""Waits of tests on an event loop; `processes.wait_until` is for others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LIMIT_S = 180.0


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until it holds. Raises TimeoutError."""
    async with asyncio.timeout(_LIMIT_S):
        while not holds():
            await asyncio.sleep(0.005)
