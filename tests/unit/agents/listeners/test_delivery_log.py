"""How many lines the log of deliveries has: of each kind the first at once, then one for all of the next 10 s."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
import structlog
from structlog.testing import capture_logs

from agents.listeners import delivery_log
from agents.listeners.delivery_log import DeliveryLog
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import Delivery, PartitionState
from knative.delivery.attempt import Outcome
from knative.delivery.verdicts import DELIVERED, RetryableFailure

pytestmark = pytest.mark.asyncio

LIMIT_S = 20.0


@pytest.fixture(autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Info, as workers have it unless they are told otherwise."""
    wrapper = structlog.make_filtering_bound_logger(getattr(request, "param", logging.INFO))
    monkeypatch.setattr(delivery_log, "log", structlog.wrap_logger(None, wrapper_class=wrapper))


def _fail(log: DeliveryLog, offset: int, what: str = "attempt failed") -> None:
    record = Delivery(PartitionState("t", 0, OffsetTracker(0)), offset, None, b"", [("ce_id", b"%d" % offset)], 1)
    log.outcome(what, record, Outcome(RetryableFailure(503, "busy"), "http://x/", 1, 0.0, 0.0, 503))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_thousand_failures_are_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_log, "EVERY_S", 0.2)
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        for offset in range(1000):
            _fail(log, offset)
        assert [(line["offset"], line.get("count")) for line in lines] == [(0, None)]
        await _until(lambda: len(lines) == 2)
        for offset in range(1000, 1010):
            _fail(log, offset)
        assert len(lines) == 2, "a sum begins the next ten seconds"
        await _until(lambda: len(lines) == 3)
        await _until(lambda: not log._kinds)  # nothing came any more
        _fail(log, 2000)
    assert [(line["offset"], line.get("count"), line.get("within_s")) for line in lines] == [
        (0, None, None),
        (999, 999, 0.2),
        (1009, 10, 0.2),
        (2000, None, None),
    ]
    assert {line["log_level"] for line in lines} == {"warning"}
    log.close()


async def test_each_kind_has_its_own_first_line_and_the_end_tells_the_rest() -> None:
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        for what in ("attempt failed", "dead-lettered", "attempt failed", "attempt failed"):
            _fail(log, 1, what)
        log.close()
    assert [(line["event"], line.get("count")) for line in lines] == [
        ("attempt failed", None),
        ("dead-lettered", None),
        ("attempt failed", 2),
    ]


@pytest.mark.parametrize("level", [logging.DEBUG], indirect=True)
async def test_at_debug_none_is_left_out() -> None:
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        for offset in range(3):
            _fail(log, offset)
    log.close()
    assert [(line["offset"], line["log_level"]) for line in lines] == [(n, "warning") for n in range(3)]


async def test_without_a_second_failure_there_is_no_sum() -> None:
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        _fail(log, 1)
        log.close()
    assert len(lines) == 1


async def test_a_plain_success_is_no_line_above_debug() -> None:
    log = DeliveryLog("ns/s")
    record = Delivery(PartitionState("t", 0, OffsetTracker(0)), 1, None, b"", [], 1)
    with capture_logs() as lines:
        log.outcome("delivered", record, Outcome(DELIVERED, "http://x/", 1, 0.0, 0.0, 202))
        log.outcome("delivered", record, Outcome(DELIVERED, "http://x/", 2, 0.0, 0.0, 202))
    log.close()
    assert [line["attempt"] for line in lines] == [2]
