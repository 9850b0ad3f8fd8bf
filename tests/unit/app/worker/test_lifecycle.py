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


def _with_parts(monkeypatch: pytest.MonkeyPatch, again: bool, **changes: Any) -> Any:
    lifecycle: Any = Lifecycle()
    parts = dict.fromkeys(("traffic", "dlq_sizes", "outage", "controller", "secrets", "spans", "admin"))
    parts |= {name: _Part() for name in ("supervisor", "producer")}
    parts |= {name: SimpleNamespace(stop=_Part().stop) for name in ("contract", "status")}
    lifecycle.parts = SimpleNamespace(**{**parts, **changes}, settings=SimpleNamespace(drain_s=DRAIN_S))
    monkeypatch.setattr(lifecycle._watchdog, "end_within", lambda seconds, code=1: None)
    monkeypatch.setattr(Ports, "execute_again", lambda _: None)
    monkeypatch.setattr(Ports, "are_passed_on", again)
    return lifecycle


@pytest.mark.parametrize("again", [False, True], ids=["stop", "restart"])
def test_what_people_started_ends_while_the_producer_still_sends(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """How a redrive has ended goes to the audit topic. Also when it takes longer than the drain."""
    ends: list[str] = []

    class Admin(_Part):
        async def leave(self) -> None:
            await asyncio.sleep(3 * DRAIN_S)
            ends.append("redrive")

    class Producer(_Part):
        async def stop(self, limit_s: float = 0.0) -> None:
            ends.append("producer")

    lifecycle = _with_parts(monkeypatch, again, admin=Admin(), producer=Producer())
    run(lifecycle._end(_Web()))
    assert ends == ["redrive", "producer"]


@pytest.mark.parametrize("again", [False, True], ids=["stop", "restart"])
def test_watchdog_leaves_time_for_all_drains(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """At a restart, ingress drains when the deliveries have drained."""
    lifecycle = _with_parts(monkeypatch, again)
    limits: list[float] = []
    monkeypatch.setattr(lifecycle._watchdog, "end_within", lambda seconds, code=1: limits.append(seconds))

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await lifecycle._end(_Web())
        return loop.time() - began

    spent_s = run(main())
    assert spent_s >= DRAIN_S * (2 if again else 1)
    assert limits[0] > spent_s
