"""The table of raw requests: bytes sent, statuses expected, bodies stored. Values only: `test_raw_sockets` sends."""

from __future__ import annotations

from dataclasses import dataclass

from web.http.config import DriverConfig

CONFIG = DriverConfig(
    event_bytes_max=16 * 1024,
    header_bytes_max=8 * 1024,
    header_count_max=40,
    url_bytes_max=1024,
    trailer_bytes_max=1024,
    linger_s=1.0,
    sweep_s=0.05,
)
LINE = b"POST /channels/demo/orders HTTP/1.1\r\n"
HOST = b"Host: x\r\n"
CE = b"ce-id: 1\r\nce-source: /s\r\nce-type: t\r\nce-specversion: 1.0\r\n"
TWO = b"content-length: 2\r\n\r\nhi"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
CLOSE = b"connection: close\r\n"
P = LINE + HOST + CE
GOOD = P + TWO
LAST = P + CLOSE + TWO
END = b"0\r\n\r\n"
#: Its body is as long as this head and the body of `GOOD`: what it says fits what was read by then.
FITTING_BYTES = len(P) + len(b"content-length: 100\r\n\r\n") + 2
FITTING_HEAD = P + b"content-length: %d\r\n\r\n" % FITTING_BYTES


@dataclass(frozen=True)
class Case:
    """`parts` are sent with a pause between them."""

    name: str
    parts: tuple[bytes, ...]
    statuses: tuple[int, ...]
    stored: tuple[bytes | None, ...] = ()


def case(name: str, sent: bytes | tuple[bytes, ...], status: int | tuple[int, ...], *stored: bytes | None) -> Case:
    """A row of the table."""
    parts = sent if isinstance(sent, tuple) else (sent,)
    return Case(name, parts, status if isinstance(status, tuple) else (status,), stored)


def each_byte(wire: bytes) -> tuple[bytes, ...]:
    """One byte at a time."""
    return tuple(wire[i : i + 1] for i in range(len(wire)))


CASES = [
    # what must be served
    case("one event", LAST, 202, b"hi"),
    case("no body at all", P + CLOSE + b"\r\n", 202, None),
    case("a body of length 0", P + CLOSE + b"content-length: 0\r\n\r\n", 202, None),
    case("no body at all, typed", P + CLOSE + b"content-type: a/b\r\n\r\n", 202, None),
    case("a typed body of length 0", P + CLOSE + b"content-type: a/b\r\ncontent-length: 0\r\n\r\n", 202, b""),
    case("chunked", P + CLOSE + CHUNKED + b"2\r\nhi\r\n3\r\nabc\r\n" + END, 202, b"hiabc"),
    case("chunked, empty", P + CLOSE + CHUNKED + END, 202, None),
    case("chunked, typed and empty", P + CLOSE + b"content-type: a/b\r\n" + CHUNKED + END, 202, b""),
    case("chunk extensions of 4 KiB", P + CLOSE + CHUNKED + b"2;" + b"a" * 4095 + b"\r\nhi\r\n" + END, 202, b"hi"),
    case("CHUNKED in capitals", P + CLOSE + b"Transfer-Encoding: CHUNKED\r\n\r\n2\r\nhi\r\n" + END, 202, b"hi"),
    case("short chunk extensions", P + CLOSE + CHUNKED + b'2;a=b;c="d"\r\nhi\r\n' + END, 202, b"hi"),
    case("chunk extensions with white space", P + CLOSE + CHUNKED + b'2 ; a = "b; c"\t;d\r\nhi\r\n' + END, 202, b"hi"),
    case(
        "chunk extensions with white space, split in every byte",
        each_byte(P + CLOSE + CHUNKED + b"2 ;\ta\r\nhi\r\n0 ; b\r\nx: y\r\n\r\n"),
        202,
        b"hi",
    ),
    case("trailers are not headers", P + CLOSE + CHUNKED + b"2\r\nhi\r\n0\r\nce-id: 2\r\nx: y\r\n\r\n", 202, b"hi"),
    case("split in every byte", each_byte(LAST), 202, b"hi"),
    case(
        "chunked, split in every byte", each_byte(P + CLOSE + CHUNKED + b"2;x\r\nhi\r\n0\r\na: b\r\n\r\n"), 202, b"hi"
    ),
    case("split inside the blank line", (P + CLOSE + b"content-length: 2\r\n\r", b"\nhi"), 202, b"hi"),
    case("split before the blank line", (P + CLOSE + b"content-length: 2\r\n", b"\r\nhi"), 202, b"hi"),
    case("pipelined", GOOD * 5 + LAST, (202,) * 6, *[b"hi"] * 6),
    case("pipelined, cut anywhere", ((GOOD * 3 + LAST)[:300], (GOOD * 3 + LAST)[300:]), (202,) * 4, *[b"hi"] * 4),
    case("pipelined behind chunks", P + CHUNKED + b"2\r\nhi\r\n" + END + LAST, (202, 202), b"hi", b"hi"),
    case(
        "pipelined, cut where the lengths of the second request fit the first",
        (GOOD + FITTING_HEAD, b"x" * FITTING_BYTES + LAST),
        (202, 202, 202),
        b"hi",
        b"x" * FITTING_BYTES,
        b"hi",
    ),
    case("pipelined, the second with a bad Host", GOOD + GOOD.replace(b"Host: x", b"Host: ["), (202, 400), b"hi"),
    case("blank lines before a request", b"\r\n\r\n\r\n" + LAST, 202, b"hi"),
    case("blank lines between requests", GOOD + b"\r\n" + LAST, (202, 202), b"hi", b"hi"),
    case("HTTP/1.0 ends the connection", P.replace(b"1.1\r", b"1.0\r", 1) + TWO, 202, b"hi"),
    case("HTTP/1.0 without Host", (LINE + CE + TWO).replace(b"1.1\r", b"1.0\r", 1), 202, b"hi"),
    case(
        "HTTP/1.0 keep-alive is closed",
        P.replace(b"1.1\r", b"1.0\r", 1) + b"Connection: keep-alive\r\n" + TWO,
        202,
        b"hi",
    ),
    case(
        "expect 100, body later",
        (P + CLOSE + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n", b"hi"),
        (100, 202),
        b"hi",
    ),
    case("expect 100, body at once", P + CLOSE + b"expect: 100-continue\r\n" + TWO, 202, b"hi"),
    case(
        "upgrade h2c is ignored",
        P + b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n" + TWO,
        202,
        b"hi",
    ),
    case(
        "upgrade, chunked",
        P + b"connection: upgrade, close\r\nupgrade: h2c\r\n" + CHUNKED + b"2\r\nhi\r\n" + END,
        202,
        b"hi",
    ),
    case(
        "upgrade, header split in two reads",
        (P + b"Connection: Upgrade, close\r\nUpgr", b"ade: h2c\r\n" + TWO),
        202,
        b"hi",
    ),
    case("upgrade, every byte", each_byte(P + b"Connection: Upgrade, close\r\nUpgrade: h2c\r\n" + TWO), 202, b"hi"),
    case(
        "upgrade, pipelined",
        (P + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + TWO) * 3 + LAST,
        (202,) * 4,
        *[b"hi"] * 4,
    ),
    case(
        "upgrade to websocket by GET",
        b"GET /channels/demo/orders HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n",
        405,
    ),
    case("absolute target", LAST.replace(b"POST /", b"POST http://x/", 1), 202, b"hi"),
    case("absolute target of another host", LAST.replace(b"POST /", b"POST http://y/", 1), 202, b"hi"),
    case("absolute target, default port", LAST.replace(b"POST /", b"POST http://x:80/", 1), 202, b"hi"),
    case(
        "absolute target, behind an event and before one",
        GOOD + GOOD.replace(b"POST /", b"POST http://y/", 1) + LAST,
        (202, 202, 202),
        *[b"hi"] * 3,
    ),
    case("absolute target, every byte", each_byte(LAST.replace(b"POST /", b"POST http://y/", 1)), 202, b"hi"),
    case("UTF-8 in a header", P + b"ce-place: Z\xc3\xbcrich\r\n" + CLOSE + TWO, 202, b"hi"),
    case("white space around a value", P + b"x:  \t a \t \r\n" + CLOSE + b"content-length: 2 \r\n\r\nhi", 202, b"hi"),
    case("content-encoding identity", P + CLOSE + b"content-encoding: identity\r\n" + TWO, 202, b"hi"),
    case("a body of exactly the limit", P + CLOSE + b"content-length: 16384\r\n\r\n" + b"x" * 16384, 202, b"x" * 16384),
    case("a page whose path begins like an authority", b"GET //[ HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", 404),
    case(
        "such a page behind an event",
        GOOD + b"OPTIONS //[ HTTP/1.1\r\n" + HOST + b"\r\n" + LAST,
        (202, 404, 202),
        b"hi",
        b"hi",
    ),
    case(
        "a probe of a path that is not the channel's",
        b"GET //x/channels/demo/orders HTTP/1.1\r\nK-Network-Probe: probe\r\n" + HOST + CLOSE + b"\r\n",
        404,
    ),
    case("answers before an error are given", GOOD + b"GARBAGE\r\n\r\n", (202, 400), b"hi"),
    # smuggling
    case("two Hosts", LINE + HOST + HOST + CE + TWO, 400),
    case("two Hosts, different", LINE + HOST + b"host: y\r\n" + CE + TWO, 400),
    case("no Host", LINE + CE + TWO, 400),
    case("a Host with a space", LINE + b"Host: a b\r\n" + CE + TWO, 400),
    case("a Host with user information", LINE + b"Host: a@b\r\n" + CE + TWO, 400),
    case("a Host with a path", LINE + b"Host: a/b\r\n" + CE + TWO, 400),
    case("absolute target with user information", LAST.replace(b"POST /", b"POST http://a@x/", 1), 400),
    case("absolute target without a host", LAST.replace(b"POST /", b"POST http:///", 1), 400),
    case("absolute target, no Host", (LINE + CE + TWO).replace(b"POST /", b"POST http://x/", 1), 400),
    case(
        "absolute target, a bad Host", LAST.replace(b"POST /", b"POST http://x/", 1).replace(HOST, b"Host: [\r\n"), 400
    ),
    case("Content-Length and Transfer-Encoding", P + b"content-length: 5\r\n" + CHUNKED + END, 400),
    case(
        "Transfer-Encoding and Content-Length",
        P + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n" + END,
        400,
    ),
    case("two Content-Lengths", P + b"content-length: 2\r\n" + TWO, 400),
    case("two Content-Lengths that differ", P + b"content-length: 1\r\n" + TWO, 400),
    case("a list as Content-Length", P + b"content-length: 2, 2\r\n\r\nhi", 400),
    case("Content-Length +2", P + b"content-length: +2\r\n\r\nhi", 400),
    case("Content-Length -2", P + b"content-length: -2\r\n\r\nhi", 400),
    case("Content-Length 0x2", P + b"content-length: 0x2\r\n\r\nhi", 400),
    case("Content-Length of 30 digits", P + b"content-length: 000000000000000000000000000002\r\n\r\nhi", 413),
    case("Content-Length that overflows", P + b"content-length: 99999999999999999999999\r\n\r\nhi", 400),
    case("an empty Content-Length", P + b"content-length:\r\n\r\nhi", 400),
    case("Transfer-Encoding gzip, chunked", P + b"transfer-encoding: gzip, chunked\r\n\r\n" + END, 400),
    case("Transfer-Encoding chunked, gzip", P + b"transfer-encoding: chunked, gzip\r\n\r\n" + END, 400),
    case("Transfer-Encoding twice", P + b"transfer-encoding: chunked\r\n" + CHUNKED + END, 400),
    case("Transfer-Encoding gzip and chunked", P + b"transfer-encoding: gzip\r\n" + CHUNKED + END, 400),
    case("Transfer-Encoding identity", P + b"transfer-encoding: identity\r\n" + TWO, 400),
    case("Transfer-Encoding xchunked", P + b"transfer-encoding: xchunked\r\n\r\n" + END, 400),
    case("Transfer-Encoding behind a vertical tab", P + b"transfer-encoding: \x0bchunked\r\n\r\n" + END, 400),
    case("Transfer-Encoding, empty", P + b"transfer-encoding:\r\n" + TWO, 400),
    case("Transfer-Encoding in HTTP/1.0", (P + CHUNKED + END).replace(b"1.1\r", b"1.0\r", 1), 400),
    case(
        "Transfer-Encoding in HTTP/1.0 that speaks of HTTP/1.1",
        b"POST / HTTP/1.0\r\nx: HTTP/1.1\r\n" + HOST + CE + CHUNKED + END,
        400,
    ),
    case("Content-Length as a trailer", P + CHUNKED + b"2\r\nhi\r\n0\r\ncontent-length: 5\r\n\r\n", 400),
    case("chunk extensions over 4 KiB", P + CHUNKED + b"2;" + b"a" * 5000 + b"\r\nhi\r\n" + END, 400),
    case("chunk extensions over 4 KiB in all", P + CHUNKED + (b"2;" + b"a" * 1000 + b"\r\nhi\r\n") * 5 + END, 400),
    case("chunk extensions over 4 KiB, pipelined", P + CHUNKED + b"2;" + b"a" * 5000 + b"\r\nhi\r\n" + END + GOOD, 400),
    case("a chunk extension without end", (P + CHUNKED + b"2;", b"a" * 3000, b"a" * 3000), 400),
    case("chunk size -2", P + CHUNKED + b"-2\r\nhi\r\n" + END, 400),
    case("chunk size 0x2", P + CHUNKED + b"0x2\r\nhi\r\n" + END, 400),
    case("chunk size with a space", P + CHUNKED + b"2 \r\nhi\r\n" + END, 400),
    case("chunk size of 17 digits", P + CHUNKED + b"00000000000000002\r\nhi\r\n" + END, 400),
    case("a chunk size that is none", P + CHUNKED + b"\r\nhi\r\n" + END, 400),
    case("bare LF after a chunk size", P + CHUNKED + b"2\nhi\r\n" + END, 400),
    case("bare LF in a chunk extension", P + CHUNKED + b"2;a\nhi\r\n" + END, 400),
    case("no line end after a chunk", P + CHUNKED + b"2\r\nhixx0\r\n\r\n", 400),
    case("trailers without end", P + CHUNKED + b"2\r\nhi\r\n0\r\n" + b"a: b\r\n" * 300, 431),
    case("bare LF after the request line", GOOD.replace(b"\r\n", b"\n", 1), 400),
    case("bare LF, and nothing of HTTP/1.1", b"POST /channels/demo/orders\n\r\n", 400),
    case("bare LF behind an event", GOOD + b"POST /x\n\r\n", (202, 400), b"hi"),
    case("bare LF behind an event, by itself", (GOOD, b"POST /x\n\r\n"), (202, 400), b"hi"),
    case("bare LF behind an event, byte by byte", (GOOD, *each_byte(b"GET /x\n\r\n")), (202, 400), b"hi"),
    case("bare LF before a request", b"POST /x\n\r\n" + GOOD, 400),
    case("bare LF behind an event and before a request", GOOD + b"POST /channels\n\r\n" + GOOD, (202, 400), b"hi"),
    case("bare LF after a header", GOOD.replace(b"x\r\n", b"x\n", 1), 400),
    case("bare LF ends the head", P + b"content-length: 2\r\n\nhi", 400),
    case("bare CR in a header", P + b"x: a\rb\r\n" + TWO, 400),
    case("a folded header", P + b"x: a\r\n b\r\n" + TWO, 400),
    case("a space before the colon", P + b"x : a\r\n" + TWO, 400),
    case("a space before the first header", LINE + b" " + HOST + CE + TWO, 400),
    case("a header without colon", P + b"abc\r\n" + TWO, 400),
    case("a header without name", P + b": a\r\n" + TWO, 400),
    # bytes
    case("NUL in a header", P + b"x: a\0b\r\n" + TWO, 400),
    case("a control character in a header", P + b"x: a\x01b\r\n" + TWO, 400),
    case("DEL in a header", P + b"x: a\x7fb\r\n" + TWO, 400),
    case("8 bits that are not UTF-8", P + b"x: a\xff\r\n" + TWO, 400),
    case("overlong UTF-8", P + b"x: \xc0\xa0\r\n" + TWO, 400),
    case("8 bits in a name", P + b"x\xc3\xbc: a\r\n" + TWO, 400),
    case("8 bits in the URL", GOOD.replace(b"/demo", b"/d\xffmo", 1), 400),
    case("a space in the URL", GOOD.replace(b"/demo", b"/d mo", 1), 400),
    case("a line break in an attribute", P.replace(b"ce-type: t", b"ce-type: t%0d%0ax") + CLOSE + TWO, 400),
    case("an unknown method", GOOD.replace(b"POST", b"BREW", 1), 405),
    case("a method in lower case", GOOD.replace(b"POST", b"post", 1), 405),
    case("an unknown method behind an event", GOOD + b"BREW / HTTP/1.1\r\n\r\n", (202, 405), b"hi"),
    case("an unknown method and no target", b"BREW HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    case("CONNECT", b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    case("HTTP/2 by prior knowledge", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    case("HTTP/2.0 as version", GOOD.replace(b"1.1\r", b"2.0\r", 1), 505),
    case("HTTP/1.2", GOOD.replace(b"1.1\r", b"1.2\r", 1), 400),
    case("HTTP/0.9", b"GET /\r\n\r\n", 505),
    case("TLS on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 40, 400),
    case("RTSP", b"DESCRIBE / RTSP/1.0\r\nHost: x\r\n\r\n", 405),
    case("an ftp target", LAST.replace(b"POST /", b"POST ftp://x/", 1), 400),
    # sizes
    case("a body over the limit, said", P + b"content-length: 16385\r\n\r\n" + b"x" * 16385, 413),
    case("a body over the limit, chunked", P + CHUNKED + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 5 + END, 413),
    case("one chunk over the limit, only said", P + CHUNKED + b"ffffffffffffffff\r\n", 413),
    case("ten times the limit is drained", P + b"content-length: 163840\r\n\r\n" + b"x" * 163840, 413),
    case("expect 100 for too much", P + b"expect: 100-continue\r\ncontent-length: 16385\r\n\r\n", 413),
    case("one header over the limit", P + b"x: " + b"a" * 9000 + b"\r\n" + TWO, 431),
    case(
        "headers over the limit together", P + b"".join(b"x%d: %s\r\n" % (i, b"a" * 900) for i in range(10)) + TWO, 431
    ),
    case("1 MB of one header", P + b"x: " + b"a" * 1_000_000 + b"\r\n" + TWO, 431),
    case("a header name of 1 MB", P + b"a" * 1_000_000 + b": x\r\n" + TWO, 431),
    case("too many headers", P + b"".join(b"x%d: y\r\n" % i for i in range(50)) + TWO, 431),
    case("10,000 headers", P + b"x: y\r\n" * 10_000 + TWO, 431),
    case("too many headers, and no end", (P, b"x: y\r\n" * 50), 431),
    case("a long URL", GOOD.replace(b"/demo", b"/" + b"d" * 2000, 1), 414),
    case("a URL of 1 MB", GOOD.replace(b"/demo", b"/" + b"d" * 1_000_000, 1), 414),
    case("blank lines without end", b"\r\n" * 10_000, 431),
    # coding
    case("content-encoding gzip", P + b"content-encoding: gzip\r\n" + TWO, 400),
    case("content-encoding twice", P + b"content-encoding: identity\r\ncontent-encoding: br\r\n" + TWO, 400),
]
