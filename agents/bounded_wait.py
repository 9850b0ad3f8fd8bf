"""Bounded wait: returns when the awaitable is done or after `limit_s`. Callers check which of the two it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def at_most(what: Awaitable[object], limit_s: float) -> None:
    """Wait for `what`; cancel it after `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            await what
    except TimeoutError:
        return
