"""Waiting that ends. Refuses to say whether what was waited for has come: who wants to know looks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def at_most(what: Awaitable[object], limit_s: float) -> None:
    """Until it is done, or the time is over; it is cancelled then."""
    try:
        async with asyncio.timeout(limit_s):
            await what
    except TimeoutError:
        return
