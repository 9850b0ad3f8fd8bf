"""Scrapes of several processes at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import generate_latest

from app.observability.merging import families
from app.observability.metrics import Metrics
from app.observability.others import Others


def _counted(began_at: float, requests: int) -> dict[str, Any]:
    metrics = Metrics()
    for _ in range(requests):
        metrics.request(202)
    return {"began_at": began_at, "families": families(metrics.registry.collect())}


class _Answers(Others):
    """Another process dies between two scrapes, and the second one has its answer before the first one."""

    def __init__(self) -> None:
        super().__init__({2: ""}, began_at=10.0)
        before, after = _counted(11.0, 1000), _counted(50.0, 1)
        self._answers = iter([(0, before), (100, before), (0, after), (0, after)])

    async def ask(self, page: str) -> dict[int, tuple[int, Any]]:
        turns, answer = next(self._answers)
        for _ in range(turns):
            await asyncio.sleep(0)
        return {2: (200, answer)}


@pytest.mark.asyncio
async def test_two_scrapes_at_once_count_nothing_twice() -> None:
    others, own = _Answers(), Metrics()
    own.request(202)
    await others.metrics(own.registry)
    await asyncio.gather(others.metrics(own.registry), others.metrics(own.registry))
    text = generate_latest(await others.metrics(own.registry)).decode()
    assert 'penstock_ingress_requests_total{code="202"} 1002.0' in text
