"""The spans of started records: each process span is begun once and ended once, whatever becomes of its record."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from agents.listeners.delivery_log import DeliveryLog
from agents.listeners.spans import UNTRACED, Spans, TracedSpans
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import DELIVERED, FinalFailure, Verdict
from knative.ports import Headers
from knative.tracing import ABANDONED

SUBSCRIPTION = Subscription(
    uid="u", generation=1, namespace="ns", name="sub", channel_uid="c", channel="ch", topic="topic",
    dlq_topic="topic.dlq", partitions=1, group="kafka.u", subscriber=Addressable("http://sub.test/x"),
)  # fmt: skip
TRACE = "0af7651916cd43dd8448eb211c80319c"
EVENT: list[tuple[str, bytes | None]] = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
IN_TRACE = [*EVENT, ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]


class _Process:
    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.verdicts: list[str] = []

    def attempt(self, url: str, number: int) -> _Attempt:
        self.attempts.append((url, number))
        return _Attempt()

    def ended(self, verdict: str) -> None:
        self.verdicts.append(verdict)


class _Attempt:
    def headers(self, stored: Headers) -> Headers:
        return [("traceparent", b"mine")]

    def ended(self, status: int, problem: str = "") -> None:
        """Not asked for here."""


class _Trace:
    def __init__(self) -> None:
        self.made: list[_Process] = []

    def receive(self, target: bytes, host: bytes | None, pairs: object) -> _Attempt:
        raise AssertionError("nothing is received here")

    def process(
        self, subscription: Subscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> _Process:
        self.made.append(_Process())
        return self.made[-1]


def _partition(number: int = 0) -> PartitionState:
    return PartitionState("topic", number, OffsetTracker(0))


def _record(partition: PartitionState, offset: int, headers: list[tuple[str, bytes | None]] = EVENT) -> Delivery:
    return Delivery(partition, offset, None, b"", headers, 1)


def _traced() -> tuple[_Trace, TracedSpans]:
    trace = _Trace()
    return trace, TracedSpans(trace)  # type: ignore[arg-type]  # it receives nothing


def test_a_span_ends_with_the_first_verdict_told() -> None:
    trace, spans = _traced()
    record = _record(_partition(), 0)
    spans.begin(SUBSCRIPTION, record)
    spans.attempt(record, "http://a", 1)
    spans.attempt(record, "http://b", 2)
    spans.settled(record, "delivered")
    spans.settled(record, ABANDONED)

    assert (trace.made[0].attempts, trace.made[0].verdicts) == ([("http://a", 1), ("http://b", 2)], ["delivered"])
    assert len(spans) == 0


def test_partitions_that_go_leave_no_open_span() -> None:
    trace, spans = _traced()
    going, staying = _partition(0), _partition(1)
    records = [_record(going, 0), _record(going, 1), _record(staying, 0)]
    for record in records:
        spans.begin(SUBSCRIPTION, record)
    spans.release([going])

    assert [process.verdicts for process in trace.made] == [[ABANDONED], [ABANDONED], []]
    assert len(spans) == 1
    assert spans.attempt(records[0], "http://a", 2) is UNTRACED  # an answer that still comes


def test_without_a_trace_headers_stay_the_same_object() -> None:
    spans, record = Spans(), _record(_partition(), 0)
    spans.begin(SUBSCRIPTION, record)
    attempt = spans.attempt(record, "http://a", 1)

    assert attempt.headers(record.headers) is record.headers
    attempt.ended(200)
    spans.settled(record, "delivered")
    spans.release([record.partition])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("verdict", "attempts", "headers", "level", "fields"),
    [
        (DELIVERED, 1, EVENT, "debug", {"status": 202}),
        (DELIVERED, 2, IN_TRACE, "info", {"status": 202, "trace_id": TRACE}),
        (FinalFailure(400, "no"), 1, IN_TRACE, "warning", {"status": 400, "reason": "no", "trace_id": TRACE}),
    ],
)
async def test_a_line_for_each_verdict(
    verdict: Verdict, attempts: int, headers: Headers, level: str, fields: dict[str, object]
) -> None:
    record = _record(_partition(3), 7, list(headers))
    outcome = Outcome(verdict, "http://sub.test/x", attempts, 0.0, 0.0123, 202)

    with capture_logs() as lines:
        telling = DeliveryLog("ns/sub")
        telling.outcome("told", record, outcome, more=1)
        telling.close()

    assert lines == [
        {
            "event": "told", "log_level": level, "event_id": "1", "event_source": "/s", "event_type": "t",
            "subscription": "ns/sub", "partition": 3, "offset": 7, "attempt": attempts,
            "destination": "http://sub.test/x", "ms": 12.3, "more": 1, **fields,
        }
    ]  # fmt: skip
