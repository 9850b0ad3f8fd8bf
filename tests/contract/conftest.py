"""Contract tests that are async run on both event loops: uvloop, which the product uses, and asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One run of each test for each of these."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
