"""Requests read in one go and with care give the same, whatever they are and however they come in pieces."""

from __future__ import annotations

from typing import Any

import httptools
from hypothesis import example, given, settings
from hypothesis import strategies as st

from web import heads
from web.limits import DriverConfig, Refusal
from web.reading import BODY, IDLE, RequestReader

CONFIG = DriverConfig(event_bytes_max=200, header_bytes_max=300, header_count_max=8, url_bytes_max=60)

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
    st.sampled_from([b"/", b"/channels/a/b?c", b"*", b"http://h:1/x", b"/" + b"x" * 70]),
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


def read_all(data: bytes, careful: bool, cut: int) -> list[Any]:
    """What a connection would hand on: each whole request, then how it ended."""
    reader = RequestReader(CONFIG, 0.0)
    if careful:
        reader._start_over()
    found: list[Any] = []
    for part in (data[:cut], data[cut:]):
        at = 0
        while at < len(part):
            try:
                at = reader.read(part, at, 0.0)
            except Refusal as refusal:
                return [*found, refusal.status]
            except httptools.HttpParserError:
                return [*found, 400]
            if reader._complete:
                fields = heads.pairs_of(reader._headers)
                body = bytes(reader._body) if reader._body is not None else None
                found.append((reader._method, reader._target, reader.host, fields, body, reader._keep, reader._current))
                reader._complete, reader._body, reader.state = False, None, IDLE
    return [*found, "body" if reader.state == BODY else "head"]


@settings(deadline=None, max_examples=600)
@given(streams, st.integers(0, 400))
@example(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST / HTTP/1.1\r\n\r\n", 400)
@example(b"POST / HTTP/1.1\r\nhost: a\r\nce-id: 1\r\nce-id: 2\r\n\r\n", 400)
@example(b"GET / HTTP/1.0\r\nhost: HTTP/1.1\r\n\r\n", 400)
@example(b"\r\nPOST / HTTP/1.1\r\nhost: a\r\n\r\n", 400)
def test_both_ways_of_reading_agree(data: bytes, cut: int) -> None:
    """The quick way is no looser and no stricter, and never makes a whole request of a part."""
    assert read_all(data, False, cut) == read_all(data, True, cut)


def test_an_ordinary_request_is_read_the_quick_way() -> None:
    reader = RequestReader(CONFIG, 0.0)
    request = b"POST /c HTTP/1.1\r\nHost: never-seen\r\ncontent-length: 2\r\n\r\nab"
    for _ in range(2):
        assert reader.read(request, 0, 0.0) == len(request)
        assert (reader._quick, reader._complete, reader._body) == (True, True, b"ab")
        reader._complete, reader._body = False, None


def test_shapes_are_bounded() -> None:
    for number in range(3 * heads._SHAPES_MAX):
        heads.shape_of({b"host": b"a", b"x-%d" % number: b""})
    assert len(heads._shapes) <= heads._SHAPES_MAX
    many = {b"host": b"a", **{b"x%d" % number: b"" for number in range(100)}}
    assert heads.shape_of(many) == heads.Shape(b"host", None)
    assert tuple(many) not in heads._shapes, "a long list of names is not kept"
