"""The walk through chunked bodies agrees with the parser about where they end."""

from __future__ import annotations

import itertools

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.http.chunked import ChunkWalk
from web.http.config import DriverConfig, HttpRejection

CONFIG = DriverConfig(event_bytes_max=2000, trailer_bytes_max=100)
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
_WORD = st.text("abcXYZ019", min_size=1, max_size=5).map(str.encode)
_SPACE = st.sampled_from([b"", b"", b" ", b"\t "])
_VALUE = st.one_of(_WORD, st.just(b'"a; b"'))
_EXTENSION = st.one_of(
    st.just(b""),
    st.tuples(_SPACE, st.just(b";"), _SPACE, _WORD, _SPACE, st.just(b"="), _SPACE, _VALUE, _SPACE).map(b"".join),
)
_CHUNK = st.tuples(st.binary(min_size=1, max_size=40), _EXTENSION, st.sampled_from([b"%x", b"%X", b"%05x"]))
_TRAILERS = st.lists(st.builds(lambda name, value: name + b": " + value + b"\r\n", _WORD, _WORD), max_size=3)


class Parsed:
    """What the parser says."""

    def __init__(self) -> None:
        self.body = b""
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


@given(st.lists(_CHUNK, max_size=8), _TRAILERS, st.binary(max_size=20), st.lists(st.integers(0, 400), max_size=6))
def test_walk_ends_where_the_parser_ends(
    chunks: list[tuple[bytes, bytes, bytes]], trailers: list[bytes], behind: bytes, cuts: list[int]
) -> None:
    wire = b"".join(form % len(data) + extension + b"\r\n" + data + b"\r\n" for data, extension, form in chunks)
    wire += b"0\r\n" + b"".join(trailers) + b"\r\n"
    whole = wire + behind
    walk, parsed = ChunkWalk(CONFIG), Parsed()
    parser = httptools.HttpRequestParser(parsed)
    parser.feed_data(HEAD)
    marks = [0, *sorted({min(cut, len(wire)) for cut in cuts}), len(whole)]
    for start, stop in itertools.pairwise(marks):
        part = whole[start:stop]
        end = walk.feed(part, 0)
        parser.feed_data(walk.plain)
        assert (end >= 0) == parsed.complete
        if end >= 0:
            assert start + end == len(wire)
            break
    assert parsed.complete
    assert parsed.body == b"".join(data for data, _, _ in chunks)
    assert walk.body_bytes == len(parsed.body)


def drip(wire: bytes) -> None:
    """A walk of one byte at a time."""
    walk = ChunkWalk(CONFIG)
    for number in range(len(wire)):
        walk.feed(wire[number : number + 1], 0)


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"g\r\n", 400),
        (b"\r\n", 400),
        (b" 2\r\n", 400),
        (b"2 \r\n", 400),
        (b"2\n", 400),
        (b"2;a\n", 400),
        (b"2;a\rb\r\n", 400),
        (b"2;\x01\r\n", 400),
        (b"2;\xff\r\n", 400),
        (b"1" * 17 + b"\r\n", 400),
        (b"2;" + b"a" * 5000 + b"\r\n", 400),
        (b"2;" + b"a" * 5000, 400),
        (b"7d1\r\n", 413),
        (b"ffffffffffffffff\r\n", 413),
        (b"0\r\n" + b"a: b\r\n" * 30, 431),
        (b"0\r\n" + b"a" * 200, 431),
    ],
)
def test_invalid_chunk_is_refused_whole_and_in_pieces(wire: bytes, status: int) -> None:
    with pytest.raises(HttpRejection) as whole:
        ChunkWalk(CONFIG).feed(wire, 0)
    assert whole.value.status == status
    with pytest.raises(HttpRejection) as dripped:
        drip(wire)
    assert dripped.value.status == status
