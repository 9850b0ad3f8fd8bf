"""How many lines the log of deliveries has: of each kind the first at once, then one for all of the next 10 s."""

from __future__ import annotations

import logging

import pytest
import structlog
from structlog.testing import capture_logs

from agents.listeners import delivery_log
from agents.listeners.delivery_log import DebugDeliveryLog, DeliveryLog
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.verdicts import DELIVERED, FinalFailure, RetryableFailure, Verdict
from knative.ports import Headers
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

TRACE = "0af7651916cd43dd8448eb211c80319c"
EVENT: list[tuple[str, bytes | None]] = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
IN_TRACE = [*EVENT, ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]
FAILED = Outcome(RetryableFailure(503, "busy"), "http://x/", 1, 0.0, 0.0, 503)


@pytest.fixture(autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Info, the default of workers."""
    wrapper = structlog.make_filtering_bound_logger(getattr(request, "param", logging.INFO))
    monkeypatch.setattr(delivery_log, "log", structlog.wrap_logger(None, wrapper_class=wrapper))


def _record(offset: int) -> Delivery:
    return Delivery(PartitionState("t", 0, OffsetTracker(0)), offset, None, b"", [("ce_id", b"%d" % offset)], 1)


def _fail(log: DeliveryLog, offset: int) -> None:
    log.failed(_record(offset), FAILED, 1.0)


async def test_thousand_failures_are_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_log, "EVERY_S", 0.2)
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        for offset in range(1000):
            _fail(log, offset)
        assert [(line["offset"], line.get("count")) for line in lines] == [(0, None)]
        await until(lambda: len(lines) == 2)
        for offset in range(1000, 1010):
            _fail(log, offset)
        assert len(lines) == 2, "a sum begins the next ten seconds"
        await until(lambda: len(lines) == 3)
        await until(lambda: not log._kinds)  # nothing came any more
        _fail(log, 2000)
    assert [(line["offset"], line.get("count"), line.get("within_s")) for line in lines] == [
        (0, None, None),
        (999, 999, 0.2),
        (1009, 10, 0.2),
        (2000, None, None),
    ]
    assert {line["log_level"] for line in lines} == {"warning"}
    log.closed()


async def test_each_kind_has_its_own_first_line_and_the_end_tells_the_rest() -> None:
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        _fail(log, 1)
        log.settled(_record(1), Settlement(Settled.DEAD_LETTERED, FAILED, "t.dlq"), 1.0, 1)
        _fail(log, 2)
        _fail(log, 3)
        log.closed()
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
    log.closed()
    assert [(line["offset"], line["log_level"]) for line in lines] == [(n, "warning") for n in range(3)]


async def test_without_a_second_failure_there_is_no_sum() -> None:
    log = DeliveryLog("ns/s")
    with capture_logs() as lines:
        _fail(log, 1)
        log.closed()
    assert len(lines) == 1


async def test_plain_success_is_no_line_above_debug() -> None:
    log = DebugDeliveryLog("ns/s")
    with capture_logs() as lines:
        log.delivered(_record(1), "http://x/", 202, 0.0, 0.0)
        log.settled(
            _record(1), Settlement(Settled.DELIVERED, Outcome(DELIVERED, "http://x/", 2, 0.0, 0.0, 202)), 0.0, 1
        )
    log.closed()
    assert [line["attempt"] for line in lines] == [2]


@pytest.mark.parametrize("level", [logging.DEBUG], indirect=True)
async def test_at_debug_a_plain_success_is_a_line() -> None:
    log = DebugDeliveryLog("ns/s")
    with capture_logs() as lines:
        log.delivered(_record(7), "http://x/", 202, 0.0123, 4.0)
    log.closed()
    assert lines == [
        {
            "event": "delivered", "log_level": "debug", "event_id": "7", "event_source": "", "event_type": "",
            "subscription": "ns/s", "partition": 0,
            "offset": 7, "attempt": 1, "destination": "http://x/", "ms": 12.3, "status": 202,
        }
    ]  # fmt: skip


async def test_lines_of_dead_letters() -> None:
    log = DeliveryLog("ns/s")
    sink = Outcome(RetryableFailure(503, "busy"), "http://sink/", 2, 0.0, 0.0, 503, None, Recipient.DEAD_LETTER_SINK)
    with capture_logs() as lines:
        log.failed(_record(1), FAILED, None)
        log.failed(_record(1), sink, 1.2345)
        log.not_stored(_record(1), "t.dlq", "no broker")
        log.settled(_record(1), Settlement(Settled.DEAD_LETTERED, FAILED, "http://sink/"), 1.0, 1)
        log.settled(_record(1), Settlement(Settled.IGNORED, FAILED), 1.0, 1)
        log.settled(_record(1), Settlement(Settled.DEAD_LETTERED, to="t.dlq", reason="no id"), 1.0, 0)
        log.settled(_record(1), Settlement(Settled.FILTERED), 1.0, 0)  # not wanted: no line
    log.closed()
    entries = [
        (line["event"], line["log_level"], line.get("to"), line.get("wait_s"), line.get("reason")) for line in lines
    ]
    assert entries == [
        ("dead letter sink failed", "warning", None, 1.234, "busy"),
        (
            "dead letter cannot be stored; the event stays unsettled and is tried again",
            "error",
            None,
            None,
            "no broker",
        ),
        ("dead-lettered", "warning", "http://sink/", None, "busy"),
        ("ignored", "warning", None, None, "busy"),
        ("record is not a CloudEvent", "warning", "t.dlq", None, "no id"),
    ]


@pytest.mark.parametrize("level", [logging.DEBUG], indirect=True)
@pytest.mark.parametrize(
    ("verdict", "attempts", "headers", "log_level", "fields"),
    [
        (DELIVERED, 1, EVENT, "debug", {"status": 202}),
        (DELIVERED, 2, IN_TRACE, "info", {"status": 202, "trace_id": TRACE}),
        (FinalFailure(400, "no"), 1, IN_TRACE, "warning", {"status": 400, "reason": "no", "trace_id": TRACE}),
    ],
)
async def test_fields_of_a_line(
    verdict: Verdict, attempts: int, headers: Headers, log_level: str, fields: dict[str, object]
) -> None:
    record = Delivery(PartitionState("t", 3, OffsetTracker(0)), 7, None, b"", list(headers), 1)
    outcome = Outcome(verdict, "http://sub.test/x", attempts, 0.0, 0.0123, 202)

    log = DeliveryLog("ns/sub")
    with capture_logs() as lines:
        log.settled(record, Settlement(Settled.IGNORED, outcome, "there"), 1.0, 1)
    log.closed()

    assert lines == [
        {
            "event": "ignored", "log_level": log_level, "event_id": "1", "event_source": "/s", "event_type": "t",
            "subscription": "ns/sub", "partition": 3, "offset": 7, "attempt": attempts,
            "destination": "http://sub.test/x", "ms": 12.3, "to": "there", **fields,
        }
    ]  # fmt: skip
