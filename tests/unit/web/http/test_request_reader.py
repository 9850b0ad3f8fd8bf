"""Requests read by plan and by the parser give the same, whatever they are and however they come in pieces."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knative import memo
from tests.support.profiles import examples
from tests.unit.web.http.checked_states import CheckedReader
from web.http import head_plan
from web.http.config import DriverConfig, HttpRejection
from web.http.request_reader import BODY, COMPLETE, HEAD, IDLE

CONFIG = DriverConfig(event_bytes_max=200, header_bytes_max=300, header_count_max=8, url_bytes_max=180)

_FRAMING = (b"Host", b"host", b"content-length", b"Content-Length", b"transfer-encoding", b"expect", b"upgrade")
names = st.sampled_from((*_FRAMING, b"content-encoding", b"connection", b"content-type", b"ce-id", b"Ce-Id", b"x"))
values = st.sampled_from(
    [b"a", b"h:1", b"0", b"3", b"5", b"100-continue", b"chunked", b"identity", b"close", b"\xc3\xa4"]
)
spaces = st.sampled_from([b"", b" ", b"\t", b"  "])
lines = st.builds(
    lambda name, before, value, after: name + b":" + before + value + after, names, spaces, values, spaces
)
heads_ = st.builds(
    lambda method, target, version, some: b"\r\n".join([b"%s %s HTTP/%s" % (method, target, version), *some, b"", b""]),
    st.sampled_from([b"POST", b"GET", b"OPTIONS", b"CONNECT"]),
    st.sampled_from([b"/", b"/channels/a/b?c", b"*", b"http://h:1/x", b"/" + b"x" * 190]),
    st.sampled_from([b"1.1", b"1.1", b"1.0", b"2.0"]),
    st.lists(lines, max_size=9),
)
ordinary = st.builds(
    lambda host, length, body: (
        b"POST /c HTTP/1.1\r\n%s\r\nce-id: 1\r\n%s: %d\r\n\r\n%s" % (host, length, len(body), body)
    ),
    st.sampled_from([b"Host: a", b"host: b:8", b"HOST: c \t"]),
    st.sampled_from([b"Content-Length", b"content-length"]),
    st.binary(max_size=30),
)
streams = st.lists(st.one_of(ordinary, heads_, st.binary(max_size=20)), min_size=1, max_size=3).map(b"".join)


class Forgetful(dict[Any, Any]):
    """A table of plans that stays empty."""

    def __setitem__(self, key: Any, plan: Any) -> None:
        """Nothing is learned."""


def read_all(data: bytes, careful: bool, *cuts: int, config: DriverConfig = CONFIG) -> list[Any]:
    """What a connection would hand on: each whole request, then how it ended. `careful`: by the parser."""
    with patch.object(head_plan, "_plans", Forgetful() if careful else head_plan._plans):
        return _read_all(data, *cuts, config=config)


def _read_all(data: bytes, *cuts: int, config: DriverConfig) -> list[Any]:
    reader = CheckedReader(config)
    read: list[Any] = []
    for start, stop in pairwise((0, *sorted(cuts), len(data))):
        part = data[start:stop]
        at = 0
        while at < len(part):
            try:
                at = reader.read(part, at)
            except HttpRejection as refusal:
                return [*read, refusal.status]
            if reader.state is COMPLETE:
                request = reader.take()
                read.append(
                    (
                        request.method,
                        request.target,
                        request.host,
                        request.pairs(),
                        request.body,
                        request.keep,
                        request.head_bytes,
                    )
                )
    return [*read, {IDLE: "nothing", HEAD: "head", BODY: "body"}[reader.state]]


@examples(600)
@given(streams, st.integers(0, 400))
@example(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST / HTTP/1.1\r\n\r\n", 400)
@example(b"POST / HTTP/1.1\r\nhost: a\r\nce-id: 1\r\nce-id: 2\r\n\r\n", 400)
@example(b"GET / HTTP/1.0\r\nhost: HTTP/1.1\r\n\r\n", 400)
@example(b"\r\nPOST / HTTP/1.1\r\nhost: a\r\n\r\n", 400)
def test_request_that_was_learned_from_is_read_as_by_the_parser(data: bytes, cut: int) -> None:
    by_parser = read_all(data, True, cut)
    assert [read_all(data, False, cut) for _ in range(2)] == [by_parser] * 2


#: Values that differ from one request to the next; then what only the parser may decide.
GOOD = {b"Host": (b"a", b"b:8"), b"Content-Length": (b"2", b"13"), b"ce-id": (b"1", b"22"), b"x": (b"y", b'a "%" b')}
VALUES = [
    b"",
    b" ",
    b"z",
    b" z",
    b"z ",
    b"a\tb",
    b"a\rb",
    b"a\nb",
    b"a\0b",
    b"\x7f",
    b"\xc3\xa4",
    b"\xff",
    b"z\r\ny: 1",
    b"z\r\n y",
]
VALUES += [
    b"z\r\n\r\n",
    b"b c",
    b"[",
    b"[::1]:80",
    b"0",
    b"02",
    b"+2",
    b"-2",
    b"1_0",
    b"2 ",
    b"2,2",
    b"300",
    b"9" * 19,
    b"0" * 18 + b"2",
    b"2\r\nx: 1",
]


def post_with(values: Mapping[bytes, bytes], body: bytes, ending: bytes = b"\r\n\r\n") -> bytes:
    """A request with these header lines."""
    lines = [b"%b: %b" % line for line in values.items()]
    return b"\r\n".join([b"POST /c HTTP/1.1", *lines]) + ending + body


def learn(*heads: Mapping[bytes, bytes]) -> None:
    """Have these heads read, and nothing else."""
    head_plan._plans.clear()
    for values in heads:
        read_all(post_with(values, b"x" * int(values.get(b"Content-Length", 0))), False)


def assert_read_as_by_the_parser(request: bytes) -> None:
    for cut in (len(request), len(request) - 1, 30):
        assert read_all(request, False, cut) == read_all(request, True, cut), request


@pytest.mark.parametrize("name", GOOD)
def test_value_that_differs_is_accepted_and_read_as_by_the_parser(name: bytes) -> None:
    heads = [{key: values[which] for key, values in GOOD.items()} for which in (0, 1)]
    for value in VALUES:
        for body in (b"", b"xy", b"xyz", post_with(heads[0], b"xy")):
            learn(*heads)
            assert_read_as_by_the_parser(post_with({**heads[0], name: value}, body))


@pytest.mark.parametrize(
    "line",
    [
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Encoding", b"identity"),
        (b"Upgrade", b"websocket"),
        (b"Connection", b"close"),
        (b"Connection", b"Keep-Alive"),
        (b"Proxy-Connection", b"close"),
        (b"Host", b"a"),
        (b"x", b"a\tb"),
    ],
)
def test_line_with_a_meaning_is_read_as_by_the_parser(line: tuple[bytes, bytes]) -> None:
    heads = [{b"Host": b"a", b"ce-id": number, line[0]: line[1]} for number in (b"1", b"2", b"3")]
    learn(*heads[:2])
    for body in (b"", b"2\r\nxy\r\n0\r\n\r\n"):
        assert_read_as_by_the_parser(post_with(heads[2], body))


def test_connection_that_is_kept_does_not_teach_one_that_ends() -> None:
    heads = [{b"Host": b"a", b"Connection": value} for value in (b"keep-alive", b"Keep-Alive", b"close")]
    learn(*heads[:2])
    assert_read_as_by_the_parser(post_with(heads[2], b""))


def test_client_that_waits_for_continue_is_not_planned() -> None:
    heads = [{b"Host": b"a", b"Content-Length": b"2", b"Expect": b"100-continue", b"x": x} for x in (b"1", b"2", b"3")]
    learn(*heads[:2])
    reader = CheckedReader(CONFIG)
    reader.read(post_with(heads[2], b""), 0)
    assert reader.wants_continue()


def test_nothing_is_learned_where_the_parser_saw_other_lines() -> None:
    head_plan._plans.clear()
    lines = [b"POST /c HTTP/1.1", b"Host: a", b"x: 1"]
    head_plan.learn(lines, b"/c", [(b"Host", b"a"), (b"x", b"1"), (b"y", b"2")])
    head_plan.learn(lines, b"/d", [(b"Host", b"a"), (b"x", b"1")])
    assert not head_plan._plans


def test_limits_hold_for_planned_requests() -> None:
    heads = [{b"Host": b"a", **{b"x%d" % at: number for at in range(8)}} for number in (b"1", b"2", b"3")]
    head_plan._plans.clear()
    for values in heads[:2]:
        read_all(post_with(values, b""), False, config=DriverConfig())
    assert read_all(post_with(heads[2], b""), False) == [431]
    learn({b"Host": b"a", b"x": b"1"}, {b"Host": b"a", b"x": b"2"})
    assert read_all(post_with({b"Host": b"a", b"x": b"3" * 500}, b""), False) == [431]


COUNTED = DriverConfig(event_bytes_max=4000, header_bytes_max=300, header_count_max=8, url_bytes_max=180)


def post(number: int, body: bytes, host: bytes = b"a") -> bytes:
    """A request with the header names that all of these have."""
    return b"POST /c?%d HTTP/1.1\r\nHost: %s\r\nce-id: %d\r\nContent-Length: %d\r\n\r\n%s" % (
        number,
        host,
        number,
        len(body),
        body,
    )


def head_bytes(number: int, length: int) -> int:
    """Of a request with a body of so many bytes."""
    return len(post(number, b"x" * length)) - length


def fitting(number: int, before: int) -> int:
    """As long as the body before and the own head: what this request says of itself is true of what came until then."""
    size = before
    while size != before + head_bytes(number, size):
        size = before + head_bytes(number, size)
    return size


@st.composite
def sent_ahead(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """-> (lengths of bodies, where the stream is cut): anywhere, or where a head or a body ends."""
    sizes = [draw(st.integers(0, 4))]
    for number in range(1, draw(st.integers(1, 5))):
        sizes.append(fitting(number, sizes[-1]) if draw(st.booleans()) else draw(st.integers(0, 4)))
    ends, at = [], 0
    for number, size in enumerate(sizes):
        ends += [at + head_bytes(number, size), at + head_bytes(number, size) + size]
        at = ends[-1]
    return sizes, draw(st.lists(st.sampled_from(ends) | st.integers(0, at), max_size=3))


@examples(600)
@given(sent_ahead(), st.booleans())
@example(([2, fitting(1, 2)], [head_bytes(0, 2) + 2 + head_bytes(1, fitting(1, 2))]), False)
@example(([0, fitting(1, 0)], [head_bytes(0, 0) + head_bytes(1, fitting(1, 0))]), False)
@example(([2, 2], []), False)
def test_requests_sent_ahead_are_read_as_they_were_sent(ahead: tuple[list[int], list[int]], careful: bool) -> None:
    sizes, cuts = ahead
    bodies = [b"%d" % (number % 10) * size for number, size in enumerate(sizes)]
    data = b"".join(post(number, body) for number, body in enumerate(bodies))
    *read, rest = read_all(data, careful, *cuts, config=COUNTED)
    assert rest == "nothing"
    assert [(target, dict(fields)[b"ce-id"], body) for _, target, _, fields, body, _, _ in read] == [
        (b"/c?%d" % number, b"%d" % number, body) for number, body in enumerate(bodies)
    ]


def test_bad_request_behind_a_good_one_takes_nothing_from_it() -> None:
    for bad in (post(1, b"", b"["), b"POST /x\n\r\n"):
        good, refused = read_all(post(0, b"hi") + bad, False)
        assert (good[1], good[4], refused) == (b"/c?0", b"hi", 400)


@examples(600)
@given(streams)
@example(b"GET /x\n\r\n")
@example(post(0, b"hi") + b"GET /x\n\r\n" + post(1, b""))
def test_no_request_is_made_or_lost_by_how_bytes_come(data: bytes) -> None:
    """Refusals may differ: what a limit is reached by first does."""
    each = read_all(data, False, *range(len(data)))
    assert each[:-1] == read_all(data, False)[:-1]


def planned(number: int) -> bytes:
    """Requests that differ in one value."""
    return b"POST /planned HTTP/1.1\r\nHost: a\r\nce-id: %d\r\ncontent-length: 2\r\n\r\nab" % number


def test_request_like_two_others_needs_no_parser() -> None:
    head_plan._plans.clear()
    for number in range(3):
        reader = CheckedReader(CONFIG)
        assert reader.read(planned(number), 0) == len(planned(number))
        request = reader.take()
        assert (request.body, request.pairs()[1], reader.state) == (b"ab", (b"ce-id", b"%d" % number), IDLE)
    assert request.plan is not None
    assert ([request.plan.names[at] for at in request.plan.varying], request.values) == ([b"ce-id"], [b"2"])
    reader._parser = None  # type: ignore[assignment]
    for request_bytes in (planned(10), planned(11)):
        for part in (request_bytes[:-1], request_bytes[-1:]):
            assert reader.read(part, 0) == len(part)
        assert reader.take().body == b"ab"


def test_plan_is_replaced_only_by_another_one() -> None:
    """A view has worked something out from it, and to make one takes as long as the parser."""
    learn(*({b"Host": b"a", b"ce-id": value} for value in (b"1", b"2")))
    (plan,) = head_plan._plans.values()
    for data in (
        post_with({b"Host": b"a", b"ce-id": b"\xc3\xa4"}, b""),
        post_with({b"Host": b"a", b"ce-id": b"3"}, b"") * 2,
    ):
        read_all(data, False)
        assert list(head_plan._plans.values()) == [plan]
    for start in (b"ce-id:", b"ce-id:  "):
        data = b"POST /c HTTP/1.1\r\nHost: a\r\n%b4\r\n\r\n" % start
        read_all(data, False)
        learned = head_plan.find(data)
        assert learned is not None
        assert learned.match(data) == ([b"4"], len(data), True)


def test_idle_connection_holds_nothing_of_its_last_head() -> None:
    """A connection may be idle for a minute, and there may be thousands."""
    big = b"POST /c HTTP/1.1\r\nHost: a\r\nx: %b\r\n\r\n" % (b"y" * 100_000)
    reader = CheckedReader(DriverConfig())
    for parts in ([big], [big[:-1], big[-1:]]):
        tracemalloc.start()
        for part in parts:
            reader.read(part, 0)
        assert reader.take().head_bytes == len(big)
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held_bytes < 20_000


def test_plans_are_bounded() -> None:
    for number in range(3 * memo._SHAPES_MAX):
        read_all(b"POST /%d HTTP/1.1\r\nhost: a\r\n\r\n" % number, False)
        assert len(head_plan._plans) <= memo._SHAPES_MAX
    head_plan._plans.clear()
    for lines in (b"x: %b\r\n" % bytes(5000).replace(b"\0", b"y"), b"".join(b"x%d: y\r\n" % at for at in range(70))):
        assert read_all(b"POST / HTTP/1.1\r\nhost: a\r\n%b\r\n" % lines, False, config=DriverConfig())[1] == "nothing"
    assert not head_plan._plans, "nothing is learned from a long head"
