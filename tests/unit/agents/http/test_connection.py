"""A connection to a subscriber under any bytes: each request ends exactly once, and only by changes in the table."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.http.connection import TRANSITIONS, Connection, Pairs
from agents.http.connector import SendError
from tests.support.checked_state import CheckedState
from tests.support.profiles import examples

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nhead: no\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\nok"


class Transport:
    """Takes everything."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written += data

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0


class Checked(Connection):
    """A connection whose changes of state are checked against the table, each one."""

    _state = CheckedState(TRANSITIONS)


class Pool:
    """Sends the next request when the connection can take one, and closes it otherwise."""

    head_bytes_max = 300
    body_bytes_max = 50

    def __init__(self, requests: int) -> None:
        self.left = requests
        self.sent = 0
        self.closed = False
        self.ends: list[object] = []  # one for each request
        self.answers: list[tuple[int | SendError, bytes]] = []
        self.heads: list[Pairs | None] = []

    def send(self, connection: Connection) -> None:
        """One more, if there is one."""
        if self.left:
            self.left -= 1
            self.sent += 1
            connection.send(b"POST", self._done, 0.0)

    def _done(self, status: int | SendError, headers: Pairs | None, body: bytes) -> None:
        self.answers.append((status, body))
        self.heads.append(headers)

    def answered(self, connection: Connection, keep: bool) -> None:
        """The next one, or the end."""
        self.ends.append(None)
        if keep:
            self.send(connection)
        else:
            self.closed = True

    def failed(self, connection: Connection, error: SendError) -> None:
        """The end."""
        self.ends.append(error)
        connection.take()
        self.closed = True

    def stale(self, connection: Connection) -> None:
        """The end as well: this pool has no other connection."""
        self.ends.append("stale")
        connection.take()
        self.closed = True

    def unwanted(self, connection: Connection) -> None:
        """The end."""
        self.closed = True

    def lost(self, connection: Connection) -> None:
        """Nothing more comes."""


class Forgetful(Checked):
    """Parses each answer."""

    _answer = property(lambda self: b"", lambda self, answer: None)


def talk(parts: list[bytes], requests: int = 3, kind: type[Connection] = Checked) -> Pool:
    """The peer sends these and closes."""
    pool = Pool(requests)
    connection = kind(pool)
    connection.connection_made(cast(asyncio.BaseTransport, Transport()))
    pool.send(connection)
    for part in parts:
        if part and not pool.closed:
            connection.data_received(part)
    if not pool.closed:
        connection.eof_received()
    connection.connection_lost(None)
    return pool


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        ([OK, INTERIM + OK, CHUNKED], [(200, b"ok")] * 3),
        ([OK + INTERIM + OK], [(200, b"ok")]),  # what comes without a request makes the connection unusable
        ([UNTIL_THE_END], [(200, b"ok")]),
        ([INTERIM], []),
    ],
)
def test_answers_of_every_kind(data: list[bytes], answers: list[tuple[int, bytes]]) -> None:
    assert talk(data).answers == answers


streams = st.lists(
    st.sampled_from([OK, INTERIM, CHUNKED, UNTIL_THE_END, b"HTTP/1.1 ", b"\r\n", b"x" * 400]) | st.binary(max_size=20)
).map(b"".join)


@examples(500)
@given(streams, st.lists(st.integers(0, 600), max_size=5))
@example(INTERIM * 2 + OK, [10, 50])
@example(CHUNKED * 3, [60])
def test_each_request_ends_once(data: bytes, cuts: list[int]) -> None:
    parts = [data[start:stop] for start, stop in pairwise((0, *sorted(cuts), len(data)))]
    pool = talk(parts)
    assert len(pool.ends) == pool.sent
    assert len(pool.answers) <= pool.sent
    assert all(len(body) <= pool.body_bytes_max for _, body in pool.answers)


NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
FAILED = b"HTTP/1.1 503 Busy\r\ncontent-length: 40\r\n\r\n"  # its body may look like another answer
LAST = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
EVENT = b"HTTP/1.1 200 OK\r\nce-id: 1\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\nx: " + b"x" * 600 + b"\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "answers"),
    [
        ([OK] * 3, [(200, b"ok")] * 3),
        ([OK, FAILED, OK, OK], [(200, b"ok"), (503, OK), (200, b"ok")]),
        ([FAILED, OK, OK, NO_CONTENT], [(503, OK), (200, b"ok"), (204, b"")]),
        ([OK, FAILED.replace(b"40", b"42") + b"xx", OK], [(200, b"ok"), (503, b"xx" + OK)]),
        ([OK, b"\r", OK], [(200, b"ok")] * 2),
        ([OK, CHUNKED[:50], CHUNKED[50:], OK], [(200, b"ok")] * 3),
        ([INTERIM + OK] * 2, [(200, b"ok")] * 2),
        ([LAST, LAST], [(200, b"")]),
        ([EVENT, EVENT], []),
    ],
)
def test_repeated_answers(parts: list[bytes], answers: list[tuple[int, bytes]]) -> None:
    pool = talk(parts)
    assert pool.answers == answers
    assert pool.heads == talk(parts, kind=Forgetful).heads


pieces = [OK, INTERIM, CHUNKED, UNTIL_THE_END, NO_CONTENT, FAILED, LAST, EVENT, b"\r", b"\r\n", b"HT", INTERIM + OK]


@examples(500)
@given(st.lists(st.sampled_from([*pieces, FAILED + b"xx", CHUNKED[:50], CHUNKED[50:], OK[:5], OK[5:]]), max_size=9))
def test_repeated_answers_are_what_the_parser_makes_of_them(parts: list[bytes]) -> None:
    pools = [talk(parts, 9, kind) for kind in (Checked, Forgetful)]
    assert len({(repr(pool.ends), repr(pool.answers), repr(pool.heads), pool.closed) for pool in pools}) == 1


def test_answer_that_repeats_is_not_parsed() -> None:
    pool = Pool(4)
    connection = Checked(pool)
    connection.connection_made(cast(asyncio.BaseTransport, Transport()))
    pool.send(connection)
    connection.data_received(OK)
    parser, connection._parser = connection._parser, None
    connection.data_received(OK)
    connection.data_received(OK)
    connection._parser = parser
    connection.data_received(NO_CONTENT)
    assert pool.answers == [(200, b"ok")] * 3 + [(204, b"")]


def test_large_answer_is_not_kept() -> None:
    connection = Checked(Pool(0))
    connection.connection_made(cast(asyncio.BaseTransport, Transport()))
    connection.send(b"POST", lambda *_: None, 0.0)
    connection._listener.head_bytes_max = 1000
    connection.data_received(LARGE)
    assert (connection._answer, connection.done) == (b"", None)
