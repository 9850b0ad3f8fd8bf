"""The table of what a subscriber's answer means (docs: delivery semantics), as data: one row, one subscription.

Every row gets the same event; `test_subscriber_answers` compares what came of it with what the row says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_server import Step, forever, reply, silence
from tests.support.subscriber import says

RETRY = 2
ALL = RETRY + 1  #: attempts when every one of them fails
EVENT_HEADERS = ("ce-id: reply-1", "ce-source: /a%20b", "ce-type: reply", "ce-specversion: 1.0")
STRUCTURED = b'{"id":"reply-1","source":"/a%20b","type":"reply","specversion":"1.0","data":{"n": 1}}'


@dataclass(frozen=True, slots=True)
class Row:
    """`code` None = delivered; else the dead letter's knativeerrorcode, `data` the start of the answer's body in it.

    `reply`: the answers of the reply's target. `uri` replaces the scripted subscriber, which then gets no request;
    {port} in it is the subscriber's.
    """

    name: str
    answers: tuple[Step, ...]
    attempts: int = 1
    code: int | None = None
    data: bytes = b""
    reply: tuple[Step, ...] | None = None
    reply_posts: int = 0
    dead_at: str = "subscriber"
    uri: str = ""
    delivery: dict[str, Any] = field(default_factory=dict)


def _delivered() -> list[Row]:
    event, plain = says(200, b"hi", *EVENT_HEADERS), ("content-type: text/plain",)
    return [
        Row("ok", (says(200),)),
        Row("no-content", (reply(b"HTTP/1.1 204 No Content\r\n\r\n"),)),
        Row("created", (says(201),)),
        Row("plain-body", (says(200, b"thanks", *plain),)),
        Row("json-body", (says(200, b'{"ok":true}', "content-type: application/json"),)),
        Row("accepted-event", (says(202, b"hi", *EVENT_HEADERS),), reply=(says(200),), reply_posts=0),
        Row("reply-unwanted", (event,)),
        Row("reply-binary", (event,), reply=(says(202),), reply_posts=1),
        Row(
            "reply-structured",
            (says(200, STRUCTURED, "content-type: application/cloudevents+json"),),
            reply=(says(200),),
            reply_posts=1,
        ),
        Row("reply-created", (says(201, b"hi", *EVENT_HEADERS),), reply=(says(204),), reply_posts=1),
        Row("reply-again", (event,), attempts=2, reply=(says(503), says(200)), reply_posts=2),
        Row("then-fine", (says(503), says(200)), attempts=2),
    ]


def _replies_that_fail() -> list[Row]:
    event = says(200, b"hi", *EVENT_HEADERS)
    return [
        Row(
            "reply-fails", (event,), attempts=ALL, code=500, data=b"broken", dead_at="reply",
            reply=(says(500, b"broken"),), reply_posts=ALL,
        ),
        Row(
            "reply-refused", (event,), attempts=1, code=400, data=b"bad", dead_at="reply",
            reply=(says(400, b"bad"),), reply_posts=1,
        ),
    ]  # fmt: skip


def _unreadable_replies() -> list[Row]:
    broken = says(200, b"{", "content-type: application/cloudevents+json")
    partial = says(200, b"x", "ce-specversion: 1.0", "ce-id: 1")
    target = (says(200),)
    return [
        Row("reply-broken-json", (broken,), ALL, 200, b"{", reply=target),
        Row("reply-incomplete", (partial,), ALL, 200, b"x", reply=target),
        Row("reply-incomplete-unwanted", (partial,), ALL, 200, b"x"),
    ]


def _by_status() -> list[Row]:
    retried = [404, 408, 409, 429, 500, 501, 502, 503, 504, 599, 600, 799]
    final = [300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 405, 406, 410, 411, 413, 415, 418, 422, 428, 451]
    where = "location: http://127.0.0.1:{port}/elsewhere"
    rows = [Row(f"status-{code}", (says(code, b"no"),), ALL, code, b"no") for code in retried]
    for code in final:
        if code == 304:  # has no body by definition
            rows.append(Row("status-304", (reply(b"HTTP/1.1 304 Same\r\n\r\n", keep=False),), 1, 304))
        else:
            rows.append(Row(f"status-{code}", (says(code, b"no", where),), 1, code, b"no"))
    switch = reply(b"HTTP/1.1 101 Switching\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n", keep=False)
    for code in (100, 102, 103):
        interim = b"HTTP/1.1 %d Soon\r\nx: y\r\n\r\n" % code
        fine = reply(interim + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        rows.append(Row(f"status-{code}-then-200", (fine,)))
        rows.append(
            Row(f"status-{code}-then-400", (reply(interim + b"HTTP/1.1 400 No\r\n\r\nno", keep=False),), 1, 400, b"no")
        )
        rows.append(Row(f"status-{code}-then-the-end", (reply(interim, keep=False),), ALL, 500))
    return [*rows, Row("status-101", (switch,), 1, 101)]


def _without_an_answer() -> list[Row]:
    in_time = {"timeout": "PT3S"}  # long enough that each request has come before its attempt ends, on any machine
    endless = forever(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n", b"x", 0.02)
    headers = forever(b"HTTP/1.1 200 OK\r\nx-endless: ", b"x", 0.02)
    return [
        Row("refused-connection", (), ALL, 500, uri="http://127.0.0.1:1/"),
        Row("unknown-host", (), ALL, 500, uri="http://no-such-host.invalid/"),
        Row("no-tls", (), ALL, 500, uri="https://127.0.0.1:{port}/no-tls"),
        Row("cut-off", (reply(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", keep=False),), ALL, 500),
        Row("junk", (reply(b"\x16\x03\x01 no http\r\n\r\n", keep=False),), ALL, 500),
        Row("silent", (silence(),), ALL, 500, delivery=in_time),
        Row("endless-body", (endless,), ALL, 500, delivery=in_time),
        Row("endless-headers", (headers,), ALL, 500, delivery=in_time),
        Row("link-local", (), 1, 500, uri="http://169.254.169.254/latest"),
    ]


ROWS = [*_delivered(), *_replies_that_fail(), *_unreadable_replies(), *_by_status(), *_without_an_answer()]
