"""Replies into the broker's topic: headers, the length of the chain, and what Kafka's answer means."""

from __future__ import annotations

import pytest

from agents.dispatch.reply_store import depth_of, headers_of, too_deep, verdict_of
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.delivery.verdicts import DELIVERED, FinalFailure, Reply, RetryableFailure
from knative.ports import Headers, ProduceFailure, ProduceProblem

TRACE = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
OTHER = ("traceparent", b"00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
STATE = ("tracestate", b"a=b")


@pytest.mark.parametrize(
    ("headers", "depth"),
    [
        ([], 0),
        ([(REPLY_DEPTH, b"7")], 7),
        ([(REPLY_DEPTH, b"x")], 0),
        ([(REPLY_DEPTH, None)], 0),
        ([(REPLY_DEPTH, b"9" * 30)], 0),
    ],
)
def test_depth_of_an_event(headers: Headers, depth: int) -> None:
    assert depth_of(headers) == depth


@pytest.mark.parametrize(
    ("own", "original", "stored"),
    [
        ([], [], []),
        ([], [TRACE, STATE], [TRACE, STATE]),
        ([OTHER], [TRACE, STATE], [OTHER]),
        ([STATE], [TRACE], [TRACE]),
        ([], [("Traceparent", TRACE[1])], [TRACE]),
    ],
)
def test_reply_keeps_its_own_trace_or_has_that_of_the_event(
    own: list[tuple[str, bytes]], original: Headers, stored: list[tuple[str, bytes]]
) -> None:
    assert headers_of(Reply([("ce_id", b"1"), *own], None, None), original) == [
        ("ce_id", b"1"),
        *stored,
        (REPLY_DEPTH, b"1"),
    ]


def test_each_reply_is_one_deeper_and_a_subscriber_cannot_say_otherwise() -> None:
    headers = headers_of(Reply([("ce_id", b"1"), (REPLY_DEPTH, b"0")], None, None), [(REPLY_DEPTH, b"5")])
    assert headers == [("ce_id", b"1"), (REPLY_DEPTH, b"6")]


def test_chain_may_be_as_long_as_the_limit() -> None:
    assert too_deep([(REPLY_DEPTH, b"63")], 64) is None
    assert isinstance(too_deep([(REPLY_DEPTH, b"64")], 64), FinalFailure)


def test_what_the_answer_of_kafka_means() -> None:
    assert verdict_of(None) is DELIVERED
    assert isinstance(verdict_of(ProduceFailure(ProduceProblem.TOO_LARGE, "2 MB")), FinalFailure)
    for problem in (ProduceProblem.FULL, ProduceProblem.UNAVAILABLE, ProduceProblem.REFUSED):
        assert isinstance(verdict_of(ProduceFailure(problem, "away")), RetryableFailure)
