"""Reads requests from bytes, one at a time: feeds head and body to the parser, and checks them. No I/O, no clock.

The connection sees its state (`web/http/state`) and the request that `take` returns, and nothing else.

The careful way cuts the input where a head or a body ends before it goes into the parser. So the size of what was read
is always known, limits are exact, and what the client sends ahead does not reach the parser before its turn. Both the
parser and this module follow the framing. If they disagree on the last byte of a request, it is rejected.

A head that comes in one piece and matches a plan (`web/http/head_plan`) needs no parser. All others are read the
careful way, and plans are learned from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from weakref import ref

import httptools

from web.http import head_plan, headers
from web.http.chunked import ChunkWalk
from web.http.config import DriverConfig, HttpRejection
from web.http.head_plan import HeadPlan
from web.http.raw_request import RawRequest
from web.http.state import ReaderState

IDLE, HEAD, BODY, COMPLETE, CLOSED = ReaderState
_BLANK_LINE = b"\r\n\r\n"
#: Besides the header lines and the URL, a head has a method and a version.
_START_LINE_BYTES_MAX = 64
_SLASH = ord("/")
_VERSION = b" HTTP/1.1"


class RequestReader:
    """The current request of one connection."""

    __slots__ = (
        "_ahead",
        "_body",
        "_careful_bytes",
        "_complete",
        "_config",
        "_current",
        "_expects",
        "_host",
        "_is_plain",
        "_keep",
        "_lines",
        "_method",
        "_pairs",
        "_parser",
        "_plan",
        "_planned",
        "_remaining_bytes",
        "_tail",
        "_target",
        "_url",
        "_values",
        "_walk",
        "head_bytes",
        "state",
    )

    def __init__(self, config: DriverConfig) -> None:
        self._config = config
        self._parser = httptools.HttpRequestParser(self)
        #: That a former request matched, as long as it is in the table: thousands of idle connections hold none.
        self._plan: ref[HeadPlan] | None = None
        self._planned: HeadPlan | None = None  #: that the current request matches; the parser does not see it
        self.state = IDLE
        self._host: bytes | None = None
        self._expects = False  #: the client waits for `100 Continue`
        self._complete = False  #: the parser has seen the end of the request
        self._ahead = False  #: the parser has seen the start of a second request
        self._keep = True  #: the client allows another request on this connection
        self._current = True  #: the request is HTTP/1.1
        self._careful_bytes = min(config.url_bytes_max, config.header_bytes_max)
        self._method = self._target = self._url = b""
        self._pairs: headers.Pairs = []  #: header lines and trailers as the parser reports them
        self._lines: headers.Pairs = []  #: header lines of the current request, unless it matches a plan
        self._is_plain = False
        self._values: Sequence[bytes] = ()  #: of the lines in which the current request differs from others of its plan
        self._tail = b""  #: the last three bytes of a head that arrives in parts
        self.head_bytes = 0  #: of the current request, as far as they have arrived
        self._body: bytes | bytearray | None = None
        self._remaining_bytes = 0  #: of a body with Content-Length
        self._walk: ChunkWalk | None = None

    def read(self, data: bytes, start: int) -> int:
        """Read the head or the body from `data`, starting at `start`; returns the position after what was read.

        Afterwards `state` says what is there. Raises HttpRejection; then only `close` may follow.
        """
        key = None
        if self.state is IDLE:
            plan = self._plan() if self._plan is not None else None
            matched = plan.match(data, start) if plan is not None else None
            if matched is None:
                key, plan = head_plan.find(data, start)
                self._plan = ref(plan) if plan is not None else None
                matched = plan.match(data, start) if plan is not None else None
            if plan is not None and matched is not None and (stop := self._read_by_plan(data, start, plan, *matched)):
                return stop
        try:
            return self._read_body(data, start) if self.state is BODY else self._read_head(data, start, key)
        except httptools.HttpParserCallbackError:  # a fault of ours, not of the client
            raise
        except httptools.HttpParserInvalidMethodError as error:
            raise headers.unknown_method(data, start) from error
        except httptools.HttpParserError as error:
            raise HttpRejection(400, f"not HTTP/1.1: {error}") from error

    def take(self) -> RawRequest:
        """Returns the COMPLETE request; the reader is IDLE again."""
        body = self._body
        request = RawRequest(
            self._method,
            self._target,
            self._host,
            self._planned,
            self._values,
            self._is_plain,
            self._lines,
            bytes(body) if body.__class__ is bytearray else body,  # type: ignore[arg-type]
            self.head_bytes + self.line_bytes,
            self._keep and self._current,
        )
        if self._planned is None:
            self._forget()  # the longest head, of each of thousands of connections that are idle then
        self._values = ()
        self._body = self._planned = None
        self._complete = False
        self.state = IDLE
        return request

    @property
    def line_bytes(self) -> int:
        """What the header lines of the current request take in memory, beside `head_bytes`."""
        lines = self._planned.names if self._planned is not None else self._lines or self._pairs
        return self._config.line_extra_bytes * len(lines)

    def wants_continue(self) -> bool:
        """Returns, once for each request, whether the client waits for `100 Continue` and has sent no body."""
        wants = self._expects and not self._body
        self._expects = False
        return wants

    def close(self) -> None:
        """Nothing more is read. Frees the memory: thousands of connections may linger."""
        self.state = CLOSED
        self._forget()
        self._body = self._plan = self._planned = None
        self._parser = cast(httptools.HttpRequestParser, None)  # break the reference cycle through its callbacks

    def _read_head(self, data: bytes, start: int, key: tuple[bytes, ...] | None) -> int:
        end = data.find(_BLANK_LINE, start)
        if self.state is HEAD or end < 0:
            return self._read_part(data, start, end)
        stop = end + 4
        whole = start == 0 and stop == len(data)
        head = data if whole else data[start:stop]
        self._url = b""
        pairs = self._pairs = []
        try:
            self._parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            pairs = self._forget_upgrade()
        url = self._url
        # The parser accepts a bare LF where we look for CR LF, so it may have seen a request end before we did.
        if self._ahead:
            raise HttpRejection(400, "the request line ends in a bare LF")
        if not url:  # blank lines before a request: they count as its head, so that the limits end them
            self._begin_parts()
            self.head_bytes = stop - start
            return stop
        self.head_bytes = stop - start
        if self.head_bytes > self._careful_bytes:
            self._check_size(self.head_bytes)
        if head.find(b"\t") >= 0 or head.find(b" \r") >= 0:
            pairs = headers.strip(pairs)
        if not head.isascii():
            headers.check_text(pairs)
        self._lines = pairs
        line = head.find(b"\r\n")
        self._current = head[line - len(_VERSION) : line] == _VERSION
        self._end_head()
        if key is not None:
            keep = self._keep if self._complete else self._parser.should_keep_alive()
            head_plan.learn(key, head, url, pairs, keep)
        return self._read_body(data, stop) if self.state is BODY and not whole else stop

    def _read_by_plan(
        self, data: bytes, start: int, plan: HeadPlan, values: list[bytes], at: int, is_plain: bool
    ) -> int:
        """Read a request whose head, `data[start:at]`, matches a plan, and the part of its body in `data`. Returns the
        position after it. 0: nothing is read, because the request is one for the parser."""
        config = self._config
        if at - start > self._careful_bytes or len(plan.names) > config.header_count_max:
            return 0
        host = plan.host
        if plan.host_at >= 0:
            host = values[plan.host_at]
            if not headers.is_valid_host(host):
                return 0
        length = plan.length
        if plan.length_at >= 0:
            digits = values[plan.length_at]
            if not digits.isdigit() or len(digits) > headers.LENGTH_DIGITS_MAX:
                return 0
            length = int(digits)
        stop, body = at, None
        if length is not None:
            if length > config.event_bytes_max:
                return 0
            stop = at + length
            body = data[at:stop]
        self._planned = plan
        self._method, self._target, self._host = b"POST", plan.target, host
        self._values, self._is_plain = values, is_plain
        self._keep, self._current = plan.keep, True
        self.head_bytes = at - start
        self._body = body
        left = stop - len(data)
        if left <= 0:
            self.state = COMPLETE
            return stop
        self.state = BODY
        self._remaining_bytes = left
        self._walk = None
        self._expects = False
        return len(data)

    def _begin_parts(self) -> None:
        self._forget()
        self.state = HEAD

    def _forget(self) -> None:
        """Drop what is left of the previous request."""
        self._target = self._url = self._tail = b""
        self._pairs, self._lines, self._values = [], [], ()
        self._host = None
        self.head_bytes = 0

    def _read_part(self, data: bytes, start: int, end: int) -> int:
        """Read a part of a head that arrives in several parts."""
        if self.state is IDLE:
            self._begin_parts()
        # The blank line may be split between two parts: search the last bytes of one and the first of the next.
        if self._tail:
            joint = (self._tail + data[start : start + 3]).find(_BLANK_LINE)
            if joint >= 0:
                end = start + joint - len(self._tail)
        else:
            joint = -1
        ends = joint >= 0 or end >= 0
        stop = end + 4 if ends else len(data)
        part = data[start:stop]
        self.head_bytes += len(part)
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            self._forget_upgrade()
        whole = ends and self._url
        if self._ahead or (self._complete and not whole):  # for the parser, an HTTP/0.9 request ends with its line
            raise HttpRejection(400, "the request line ends in a bare LF")
        if whole:
            self._check_size(self.head_bytes)
            self._lines = headers.strip(self._pairs)
            headers.check_text(self._lines)
            self._current = self._parser.get_http_version() == "1.1"
            self._end_head()
        else:
            self._tail = (self._tail + part)[-3:]
            self._check_size(self.head_bytes - self._config.url_bytes_max)
            headers.check_count(self._pairs, self._config)
        return stop

    def _check_size(self, head_bytes: int) -> None:
        """Raises HttpRejection for a head that is too large. Called for parts too: the parser buffers an unfinished
        line, which must not grow without limit."""
        config = self._config
        if len(self._url) > config.url_bytes_max:
            raise HttpRejection(414, f"the URL has more than {config.url_bytes_max} bytes")
        if head_bytes - len(self._url) > config.header_bytes_max + _START_LINE_BYTES_MAX:
            raise HttpRejection(431, f"the header lines have more than {config.header_bytes_max} bytes")

    def _end_head(self) -> None:
        """The head is complete: check it, and find out how to read the body."""
        host, length, chunked, expects = headers.inspect(self._lines, self._config)
        if host is None or not self._current:
            self._check_version(host, chunked)
        self._target, self._host = self._url, host
        if self._url[0] != _SLASH:
            self._target, self._host = headers.split_target(self._url, host)
        # The parser must agree whether there is a body: otherwise it would take the body for the next request, or the
        # next request for the body.
        if self._complete == bool(length or chunked):
            raise HttpRejection(400, "the body does not match the header lines")
        self._body = None if length is None and not chunked else b""
        if self._complete:
            self.state = COMPLETE
            return
        self.state = BODY
        self._remaining_bytes = length or 0
        self._walk = None
        if chunked:
            self._walk = ChunkWalk(self._config)
            self._pairs = []  # collects the trailers, which are ignored
        self._expects = expects and self._current

    def _check_version(self, host: bytes | None, chunked: bool) -> None:
        version = self._parser.get_http_version()
        self._current = version == "1.1"
        if self._current and host is None:
            raise HttpRejection(400, "the request has no Host header")
        if version not in ("1.0", "1.1"):
            raise HttpRejection(505, "only HTTP/1.0 and HTTP/1.1 are supported")
        if chunked and not self._current:
            raise HttpRejection(400, "an HTTP/1.0 request must not have Transfer-Encoding")

    def _forget_upgrade(self) -> headers.Pairs:
        """The parser stops at `Upgrade` and does not read the body. We never upgrade, so a new parser gets the head
        without this header."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            raise HttpRejection(405, "CONNECT is not supported", (("allow", headers.ALLOW),))
        pairs = self._pairs
        again = headers.without_upgrade(method, self._url, self._parser.get_http_version(), pairs)
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._pairs, self._complete = b"", [], False
        self._parser.feed_data(again)
        self._pairs = pairs
        return pairs

    def _read_body(self, data: bytes, start: int) -> int:
        size = len(data)
        if self._walk is None:
            stop = min(size, start + self._remaining_bytes)
            self._remaining_bytes -= stop - start
            last = self._remaining_bytes == 0
            part = data if start == 0 and stop == size else data[start:stop]
        else:
            end = self._walk.feed(data, start)
            last = end >= 0
            stop = end if last else size
            part = self._walk.plain
        if self._planned is not None:
            self.on_body(part)
        else:
            self._parser.feed_data(part)
            if last != self._complete or self._ahead:
                raise HttpRejection(400, "the body does not end where Content-Length or its chunks say")
        if last:
            self.state = COMPLETE
        return stop

    # -- the parser's callbacks: they only store values and never raise ------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        if self._complete:  # of the next request: `read` decides, because a callback must not raise
            self._ahead = True
            return
        self._url = self._url + url if self._url else url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line, or a trailer."""
        self._pairs.append((name, value))

    def on_body(self, data: bytes) -> None:
        """A part of the body, decoded."""
        body = self._body
        if not body:
            self._body = data
            return
        if body.__class__ is bytes:  # the usual body arrives in one part and is never copied
            body = self._body = bytearray(body)
        body += data

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._complete = True
        self._method = self._parser.get_method()
        self._keep = self._parser.should_keep_alive()
