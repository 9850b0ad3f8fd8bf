"""Contract tests that are async run on uvloop, which the product uses, and each night on asyncio's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One run of each test for each of these."""
    factories = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    name = config.getoption("event_loop")
    return {name: factories[name]}
