"""Requests read by plan and by the parser give the same, whatever they are and however they come in pieces."""

from __future__ import annotations

import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.profiles import examples
from tests.unit.web.http.checked_states import CheckedReader
from tests.unit.web.http.reading import read_all
from web.http.config import DriverConfig

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


@examples(600)
@given(streams, st.integers(0, 400))
@example(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST / HTTP/1.1\r\n\r\n", 400)
@example(b"POST / HTTP/1.1\r\nhost: a\r\nce-id: 1\r\nce-id: 2\r\n\r\n", 400)
@example(b"GET / HTTP/1.0\r\nhost: HTTP/1.1\r\n\r\n", 400)
@example(b"\r\nPOST / HTTP/1.1\r\nhost: a\r\n\r\n", 400)
def test_request_that_was_learned_from_is_read_as_by_the_parser(data: bytes, cut: int) -> None:
    by_parser = read_all(data, True, cut)
    assert [read_all(data, False, cut) for _ in range(3)] == [by_parser] * 3


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


def test_idle_connection_holds_nothing_of_its_last_head() -> None:
    """A connection may be idle for a minute, and there may be thousands."""
    big = b"POST /c HTTP/1.1\r\nHost: a\r\nx: %b\r\n\r\n" % (b"y" * 100_000)
    reader = CheckedReader(DriverConfig())
    for parts in ([big], [big[:-1], big[-1:]]):
        tracemalloc.start()
        for part in parts:
            reader.read(part, 0)
        assert reader.take().head_bytes - len(big) in range(1000)
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held_bytes < 20_000


def test_head_counts_with_what_its_lines_take_in_memory() -> None:
    """It is counted while it waits for Kafka, and a client may send hundreds of short lines."""
    head = b"POST /c HTTP/1.1\r\nHost: a\r\n" + b"ab:cd\r\n" * 500 + b"\r\n"
    for parts in ([head], [head[:-1], head[-1:]]):
        reader = CheckedReader(DriverConfig())
        tracemalloc.start()
        for part in parts:
            reader.read(part, 0)
        request = reader.take()
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(head) < held_bytes < 1.3 * request.head_bytes
