"""The table "what an answer means", row by row, and Retry-After."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.delivery.policy import DURATION_MAX_S
from knative.delivery.verdicts import (
    DELIVERED,
    FAILURE_BODY_BYTES_MAX,
    FinalFailure,
    Reply,
    RetryableFailure,
    SendProblem,
    decide,
    decide_error,
    retry_after_s,
)

EVENT = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
JSON_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}'
STRUCTURED = [(b"Content-Type", b"application/cloudevents+json; charset=utf-8")]
TEXT = [(b"content-type", b"text/html")]

DELIVERED_ANSWERS: list[tuple[int, list[tuple[bytes, bytes]] | None, bytes]] = [
    (202, None, b""),
    (202, EVENT, b"x"),
    (202, STRUCTURED, b"not even JSON"),
    (202, [(b"ce-specversion", b"1.0")], b""),
    (200, None, b""),
    (200, [], b""),
    (204, [(b"server", b"x")], b""),
    (299, None, b""),
    (200, TEXT, b"<html>fine</html>"),
    (200, None, b"body without a type"),
    (200, [(b"content-type", b"application/json")], b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'),
    (200, [(b"ce-id", b"1"), (b"ce-type", b"t")], b"no specversion, no claim"),
]


@pytest.mark.parametrize(("status", "pairs", "body"), DELIVERED_ANSWERS)
def test_success_without_a_reply_is_delivered(
    status: int, pairs: list[tuple[bytes, bytes]] | None, body: bytes
) -> None:
    assert decide(status, pairs, body) is DELIVERED


@pytest.mark.parametrize("status", [200, 201, 203, 204, 206, 299])
def test_event_in_the_answer_is_a_reply(status: int) -> None:
    verdict = decide(status, [(b"content-type", b"text/plain"), *EVENT], b"\x00hi")
    assert isinstance(verdict, Reply)
    assert dict(verdict.headers)["ce_id"] == b"1"
    assert verdict.value == b"\x00hi"


def test_structured_event_in_the_answer_is_a_reply() -> None:
    verdict = decide(200, STRUCTURED, JSON_EVENT)
    assert isinstance(verdict, Reply)
    assert dict(verdict.headers)["ce_type"] == b"t"


def test_event_without_data_is_a_reply() -> None:
    verdict = decide(200, [(b"CE-" + name[3:].upper(), value) for name, value in EVENT], b"")
    assert isinstance(verdict, Reply)
    assert verdict.value is None


@pytest.mark.parametrize(
    ("pairs", "body", "named"),
    [
        (STRUCTURED, b"{", "cannot be read"),
        (STRUCTURED, b"", "cannot be read"),
        ([(b"content-type", b"application/cloudevents-batch+json")], b"[]", "batch"),
        ([(b"content-type", b"application/cloudevents+avro")], b"x", "format"),
        ([(b"ce-specversion", b"1.0")], b"x", "id"),
        (EVENT[1:], b"x", "id"),
        ([*EVENT, (b"ce-id", b"2")], b"", "twice"),
        ([*EVENT, (b"content-encoding", b"gzip")], b"\x1f\x8b", "content-encoding"),
    ],
)
def test_claim_that_does_not_hold_is_retried(pairs: list[tuple[bytes, bytes]], body: bytes, named: str) -> None:
    verdict = decide(200, pairs, body)
    assert isinstance(verdict, RetryableFailure)
    assert verdict.code == 200
    assert named in verdict.reason
    assert verdict.body == body


@pytest.mark.parametrize("status", [404, 408, 409, 429, 500, 501, 502, 503, 504, 599])
def test_status_that_may_pass_is_retried(status: int) -> None:
    verdict = decide(status, TEXT, b"why")
    assert verdict == RetryableFailure(status, f"the answer was {status}", b"why", None)


@pytest.mark.parametrize("status", [0, 1, 99, 600, 700, 999])
def test_code_in_no_table_is_retried(status: int) -> None:
    assert isinstance(decide(status, None, b""), RetryableFailure)


@pytest.mark.parametrize(
    "status", [100, 101, 102, 103, 199, 300, 301, 302, 304, 307, 308, 399, 400, 401, 403, 405, 406, 410, 413, 422, 499]
)
def test_status_that_will_stay_is_final(status: int) -> None:
    # A redirect or a refusal that carries an event is still no reply.
    assert decide(status, EVENT, b"why") == FinalFailure(status, f"the answer was {status}", b"why")


def test_failure_keeps_only_the_start_of_the_body() -> None:
    for status in (400, 500):
        verdict = decide(status, None, b"x" * 1_000_000)
        assert isinstance(verdict, RetryableFailure | FinalFailure)
        assert len(verdict.body) == FAILURE_BODY_BYTES_MAX


@pytest.mark.parametrize(("status", "kept"), [(429, "120"), (503, "120"), (500, None), (404, None), (200, None)])
def test_retry_after_is_kept_where_it_counts(status: int, kept: str | None) -> None:
    pairs = [(b"server", b"x"), (b"Retry-After", b"120"), (b"retry-after", b"7"), *STRUCTURED]
    verdict = decide(status, pairs, b"junk")
    assert isinstance(verdict, RetryableFailure)
    assert verdict.retry_after == kept


@pytest.mark.parametrize("text", ["connect", "read", "timeout", "dns", "tls", "closed"])
def test_no_answer_is_retried(text: str) -> None:
    assert decide_error(SendProblem(text), "why") == RetryableFailure(500, f"{text}: why")


def test_what_the_guard_refuses_is_final() -> None:
    assert decide_error(SendProblem.REFUSED, "is link-local") == FinalFailure(500, "refused: is link-local")


@given(st.integers(), st.none() | st.lists(st.tuples(st.binary(), st.binary())), st.binary())
def test_every_answer_has_a_verdict(status: int, pairs: list[tuple[bytes, bytes]] | None, body: bytes) -> None:
    verdict = decide(status, pairs, body)
    if isinstance(verdict, RetryableFailure | FinalFailure):
        assert verdict.code == status
        assert verdict.reason


NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of the specification's examples


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120\t", 120.0),
        ("00000000000000000000007", 7.0),
        ("9" * 15, DURATION_MAX_S),
        ("9" * 5000, DURATION_MAX_S),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Wed, 16 Nov 1994 08:49:37 GMT", 864_000.0),
        ("Sun, 06 Nov 1994 08:49:60 GMT", 22.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DURATION_MAX_S),
        ("Sat, 05 Nov 1994 08:49:37 GMT", 0.0),
        ("Thursday, 01-Jan-70 00:00:00 GMT", 0.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("1_000", None),
        ("\u0661\u0662", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("120, 60", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("1994-11-06T08:50:37Z", None),
        ("0\n", None),
    ],
)
def test_retry_after_is_read_as_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@given(st.text() | st.from_regex(re.compile(r"[A-Z][a-z]{2}, \d\d (Jan|Feb|Dec) \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)))
def test_retry_after_never_raises(value: str) -> None:
    seconds = retry_after_s(value, NOW)
    assert seconds is None or 0 <= seconds <= DURATION_MAX_S
