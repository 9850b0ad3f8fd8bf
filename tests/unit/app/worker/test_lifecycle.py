"""How long the parts of a worker may take to stop, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.lifecycle import Lifecycle
from app.worker.ports import Ports
from penstock.virtual_loop import run

DRAIN_S = 300.0


class _Web:
    async def drain(self, limit_s: float, *, hands_over: bool = False) -> int:
        await asyncio.sleep(limit_s)
        return 0


class _Part:
    """Takes all the time that it is given."""

    async def stop(self, limit_s: float = 0.0) -> None:
        await asyncio.sleep(limit_s)


@pytest.mark.parametrize("again", [False, True], ids=["stop", "restart"])
def test_the_watchdog_leaves_time_for_all_drains(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """At a restart, ingress drains when the deliveries have drained."""
    lifecycle: Any = Lifecycle()
    parts = dict.fromkeys(("traffic", "dlq_sizes", "outage", "controller", "secrets", "spans", "admin"))
    lifecycle.parts = SimpleNamespace(
        **parts,
        settings=SimpleNamespace(drain_s=DRAIN_S),
        **{name: _Part() for name in ("supervisor", "producer")},
        **{name: SimpleNamespace(stop=_Part().stop) for name in ("contract", "status")},
    )
    limits: list[float] = []
    monkeypatch.setattr(lifecycle._watchdog, "end_within", lambda seconds, code=1: limits.append(seconds))
    monkeypatch.setattr(Ports, "execute_again", lambda _: None)
    monkeypatch.setattr(Ports, "are_passed_on", again)

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await lifecycle._end(_Web())
        return loop.time() - began

    spent_s = run(main())
    assert spent_s >= DRAIN_S * (2 if again else 1)
    assert limits[0] > spent_s
