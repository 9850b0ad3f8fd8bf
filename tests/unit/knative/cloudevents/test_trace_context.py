"""W3C trace context in headers: what is read, what is ignored, what takes another's place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.cloudevents.http_binding import to_record
from knative.cloudevents.kafka_binding import to_request
from knative.cloudevents.trace_context import Parent, parent_in_record, parent_in_request, trace_id, with_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()
EVENT = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (GOOD, 1),
        (GOOD[:-2] + b"00", 0),
        (GOOD[:-2] + b"ff", 255),
        (b" \t" + GOOD + b" ", 1),
        (b"01" + GOOD[2:], 1),
        (b"cc" + GOOD[2:] + b"-what-the-future-brings", 1),
    ],
)
def test_good_traceparent_is_read(value: bytes, flags: int) -> None:
    assert parent_in_request([(b"traceparent", value)]) == Parent(TRACE, SPAN, flags)
    assert parent_in_record([("traceparent", value)]) == Parent(TRACE, SPAN, flags)
    assert trace_id([*EVENT, ("traceparent", value)]) == TRACE


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00",
        GOOD[:-1],
        GOOD + b"0",
        GOOD + b"-00",  # version 00 has nothing after the flags
        GOOD + b"-",
        GOOD.upper(),
        b"ff" + GOOD[2:],
        GOOD.replace(TRACE.encode(), b"0" * 32),
        GOOD.replace(SPAN.encode(), b"0" * 16),
        GOOD.replace(b"-", b"_"),
        GOOD.replace(b"0af", b"0ag"),
        GOOD.replace(b"0af", "0\u0661f".encode()),
        GOOD + b"\n",
        GOOD + b", " + GOOD,  # two headers, joined on the way
        b"01" + GOOD[2:] + b"more",
        b"01" + GOOD[2:] + b"-\n",
        b"\xff\xfe",
    ],
)
def test_malformed_traceparent_is_ignored(value: bytes) -> None:
    state = [("tracestate", b"a=1")]

    assert parent_in_request([(b"traceparent", value), (b"tracestate", b"a=1")]) is None
    assert parent_in_record([("traceparent", value), *state]) is None
    assert trace_id([("traceparent", value)]) == ""


def test_two_parents_are_none() -> None:
    assert parent_in_request([(b"traceparent", GOOD), (b"Traceparent", GOOD)]) is None


def test_record_without_a_parent_has_none() -> None:
    assert parent_in_record(EVENT) is None
    assert parent_in_record([("traceparent", None), ("tracestate", b"a=1")]) is None
    assert trace_id([]) == ""


def test_names_are_read_in_any_case_and_states_are_joined_in_order() -> None:
    pairs = [(b"TraceState", b"a=1"), (b"TRACEPARENT", GOOD), (b"tracestate", b"b=2")]

    assert parent_in_request(pairs) == Parent(TRACE, SPAN, 1, "a=1,b=2")


def test_another_context_takes_the_place_of_all_that_were_there() -> None:
    headers = [*EVENT, ("Traceparent", b"x"), ("tracestate", b"a=1"), ("traceparent", GOOD), ("knative-xyz", b"1")]

    assert with_context(headers, b"new", b"") == [*EVENT, ("knative-xyz", b"1"), ("traceparent", b"new")]
    assert with_context(EVENT, b"new", b"a=2") == [*EVENT, ("traceparent", b"new"), ("tracestate", b"a=2")]


def test_attempt_sends_its_own_context_and_no_other() -> None:
    headers, _, value = to_record([*((b"ce-" + n[3:].encode(), v) for n, v in EVENT), (b"traceparent", GOOD)], b"")
    other = GOOD.replace(SPAN.encode(), b"1" * 16)

    request = to_request(b"POST / HTTP/1.1", with_context(headers, other, b""), value)

    assert request.lower().count(b"traceparent") == 1
    assert b"\r\ntraceparent: " + other + b"\r\n" in request


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_nothing_in_a_header_raises(parent: bytes, state: bytes) -> None:
    span = parent_in_record([("traceparent", parent), ("tracestate", state)])

    assert span is None or len(span.trace_id) == 32
