"""A connection under hostile bytes: it answers each request once and in order, refuses once, and holds little."""

from __future__ import annotations

import asyncio
import re
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knative.cloudevents.http_binding import BadEvent, to_record
from tests.support.profiles import examples
from tests.unit.web.http.checked_states import CheckedConnection
from web.http.config import DriverConfig
from web.http.connection import CLOSED, LINGER, Connection
from web.http.messages import encode
from web.http.raw_request import RawRequest

CONFIG = DriverConfig(event_bytes_max=64, header_bytes_max=400, header_count_max=10, url_bytes_max=80)
GOOD = (
    b"POST /c HTTP/1.1\r\nHost: a\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\nce-specversion: 1.0\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


class Transport:
    """Keeps what is written; reading may be paused, and nothing is lost by it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = self.is_paused = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Answering:
    """A server whose view judges an event and answers now, or later in the order of coming."""

    config = CONFIG
    now = 0.0
    draining = False

    def __init__(self, answers_late: bool) -> None:
        self.answers_late = answers_late
        self.receiving_bytes = 0
        self.refusals: list[int] = []
        self.taken: list[tuple[bytes, bytes, Any, bytes | None]] = []
        self.waiting: list[tuple[Connection, bool]] = []

    def opened(self, connection: Connection) -> bool:
        return True

    def closed(self, connection: Connection) -> None:
        pass

    def refused(self, status: int) -> None:
        self.refusals.append(status)

    def dispatch(self, connection: Connection, request: RawRequest) -> None:
        pairs = request.pairs()
        assert len(request.body or b"") <= CONFIG.event_bytes_max
        assert len(pairs) <= CONFIG.header_count_max
        self.taken.append((request.method, request.target, pairs, request.body))
        if self.answers_late:
            self.waiting.append((connection, request.keep))
        else:
            self.answer(connection, request.keep)

    def answer(self, connection: Connection, keep: bool) -> None:
        _, _, pairs, body = self.taken[-1]
        try:
            to_record(pairs, body)
        except BadEvent:
            connection.finish(encode(400), keep)
        else:
            connection.finish(encode(202), keep)


def talk(parts: Sequence[bytes], answers_late: bool) -> tuple[Answering, Transport, Connection]:
    server, transport = Answering(answers_late), Transport()
    connection = CheckedConnection(server)
    connection.connection_made(cast(asyncio.BaseTransport, transport))
    for part in parts:
        if part and not transport.is_paused and not transport.is_closed:
            connection.data_received(part)
        while server.waiting:
            server.answer(*server.waiting.pop())
    return server, transport, connection


mutations = st.lists(st.tuples(st.integers(0, len(GOOD) * 2), st.integers(0, 4), st.binary(max_size=6)), max_size=4)
tokens = st.sampled_from(
    [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b":",
        b"Transfer-Encoding: chunked\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"0\r\n\r\n",
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Good requests one after the other, spoilt in places."""
    data = GOOD * draw(st.integers(1, 3))
    for at, cut, instead in draw(mutations):
        data = data[:at] + (draw(tokens) if draw(st.booleans()) else instead) + data[at + cut :]
    return data


@examples(500)
@given(st.one_of(streams(), st.binary(max_size=300)), st.lists(st.integers(0, 400), max_size=4), st.booleans())
@example(GOOD * 3, [], True)
@example(GOOD + b"\0", [], False)
def test_any_bytes_get_an_answer_and_no_exception(data: bytes, cuts: list[int], answers_late: bool) -> None:
    places = [0, *sorted(cuts), len(data)]
    parts = [data[start:stop] for start, stop in pairwise(places)]
    server, transport, connection = talk(parts, answers_late)
    finals = len(re.findall(rb"HTTP/1\.1 (?!100)\d{3} ", transport.written))
    assert finals == len(server.taken) + len(server.refusals), "each request is answered once"
    assert len(server.refusals) <= 1, "after a refusal nothing more is read"
    assert 500 not in server.refusals
    assert len(connection._rest) <= len(data)
    if connection.state is CLOSED or server.refusals:
        assert server.receiving_bytes == 0, "what was counted as under way is given back"
    accepted = transport.written.count(b"HTTP/1.1 202 ")
    assert accepted <= data.lower().count(b"ce-id"), "no event is made of nothing"


@examples(200)
@given(st.lists(st.integers(0, 3 * len(GOOD)), max_size=6), st.booleans())
def test_good_requests_are_good_in_any_pieces(cuts: list[int], answers_late: bool) -> None:
    data = GOOD * 3
    places = [0, *sorted(cuts), len(data)]
    parts = [data[start:stop] for start, stop in pairwise(places)]
    server, transport, _ = talk(parts, answers_late)
    assert [body for _, _, _, body in server.taken] == [b"{}"] * 3
    assert transport.written == encode(202) * 3


class Failing(Answering):
    """Fails on the second request, as a server never should."""

    def dispatch(self, connection: Connection, request: RawRequest) -> None:
        if self.taken:
            raise ValueError("by a test")
        super().dispatch(connection, request)


def test_who_answers_a_request_does_not_suffer_from_the_next_one() -> None:
    server, transport = Failing(answers_late=True), Transport()
    connection = CheckedConnection(server)
    connection.connection_made(cast(asyncio.BaseTransport, transport))
    connection.data_received(GOOD * 2)
    server.answer(*server.waiting.pop())
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", transport.written) == [b"202", b"500"]
    assert server.refusals == [500]


def test_refused_request_holds_no_memory_while_its_client_lingers() -> None:
    for part in (GOOD[:-6] + b"\r\nx: y" * 40, b"POST / HTTP/1.1\r\n" + b"x: y\r\n" * 40):
        server, _, connection = talk([part], False)
        assert (server.refusals, connection.state) == ([431], LINGER)
        reader = connection._reader
        assert (reader._pairs, reader._lines, reader._values) == ([], [], ())
        held: Any = (reader._parser, reader._body, reader._url)
        assert held == (None, None, b"")
        assert connection._rest == b""


@pytest.mark.parametrize("missing", [0, 2], ids=["the body", "the end of the head"])
def test_incomplete_requests_of_many_short_lines_are_bounded_in_memory(missing: int) -> None:
    server = Answering(answers_late=False)
    server.config = DriverConfig(receiving_bytes_max=1024 * 1024)
    head = b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n" + b"ab:cd\r\n" * 500 + b"\r\n"
    connections = []
    tracemalloc.start()
    for _ in range(100):
        connection = CheckedConnection(server)
        connection.connection_made(cast(asyncio.BaseTransport, Transport()))
        connection.data_received(head[: len(head) - missing])
        connections.append(connection)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(server.refusals) == {429}
    assert held_bytes < 2 * server.config.receiving_bytes_max
    for connection in connections:
        connection.connection_lost(None)
    assert server.receiving_bytes == 0
