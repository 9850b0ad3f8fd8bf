"""Request and Response for Faust Views on our own driver. They do no I/O.

The hot path uses neither: it gets header lines and body bytes, and answers with bytes that are made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from faust.utils import json as _json
from faust.web import base
from multidict import CIMultiDict, MultiDict
from yarl import URL

_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
CLOSE = b"connection: close\r\n"


def encode(status: int, headers: Iterable[tuple[str, str]] = (), body: bytes = b"", *, head: bool = False) -> bytes:
    """Returns a complete HTTP/1.1 answer. `head`: the answer to HEAD, which has the length but no body."""
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, _PHRASES.get(status, b"Unknown"))]
    if status not in (204, 304):
        lines.append(b"content-length: %d\r\n" % len(body))
    for name, value in headers:
        if any(mark in text for text in (name, value) for mark in "\r\n\0"):
            raise ValueError(f"response header {name!r} has a line break or NUL")
        lines.append(f"{name}: {value}\r\n".encode())
    lines.append(b"\r\n")
    if not head and status not in (204, 304):
        lines.append(body)
    return b"".join(lines)


def with_close(wire: bytes) -> bytes:
    """Returns the same answer with `connection: close`."""
    first, _, rest = wire.partition(b"\r\n")
    return first + b"\r\n" + CLOSE + rest


def problem(status: int, reason: str, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Returns an error answer: one line of JSON with the reason."""
    body = _as_bytes(_json.dumps({"error": reason})) + b"\n"
    return encode(status, (("content-type", "application/json"), *headers), body)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


class Response(base.Response):
    """What a View returns."""

    def __init__(
        self,
        body: bytes = b"",
        status: int = 200,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        charset: str | None = None,
    ) -> None:
        self._status = int(status)
        self._body = body
        self._headers: CIMultiDict[str] = CIMultiDict(headers or {})
        if content_type and "content-type" not in self._headers:
            self._headers["Content-Type"] = f"{content_type}; charset={charset}" if charset else content_type
        self._charset = charset

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._status

    @property
    def body(self) -> bytes:
        """The body, always complete."""
        return self._body

    @property
    def headers(self) -> CIMultiDict[str]:
        """Header fields. A View may change them until it returns."""
        return self._headers

    @property
    def content_length(self) -> int | None:
        """Bytes of the body."""
        return len(self._body)

    @property
    def content_type(self) -> str:
        """Media type without parameters."""
        return self._headers.get("content-type", "application/octet-stream").partition(";")[0].strip()

    @property
    def charset(self) -> str | None:
        """The charset of a text body."""
        return self._charset

    @property
    def chunked(self) -> bool:
        """Answers are never chunked."""
        return False

    @property
    def compression(self) -> bool:
        """Answers are never compressed."""
        return False

    @property
    def keep_alive(self) -> bool | None:
        """Whether to keep the connection open; None: the connection decides."""
        return None

    @property
    def body_length(self) -> int:
        """Bytes of the body."""
        return len(self._body)

    def wire(self, method: str = "GET") -> bytes:
        """Returns the answer as bytes. Framing headers of the View are replaced by ours."""
        framing = ("content-length", "transfer-encoding", "connection")
        pairs = [(name, value) for name, value in self._headers.items() if name.lower() not in framing]
        return encode(self._status, pairs, self._body, head=method == "HEAD")


class Request(base.Request):
    """What a View gets: a complete request with the attributes of aiohttp's."""

    def __init__(
        self,
        method: str,
        target: bytes,
        host: bytes | None,
        pairs: list[tuple[bytes, bytes]],
        body: bytes | None,
        info: Mapping[str, str],
        keep_alive: bool,
    ) -> None:
        self.method = method
        self.raw_target = target
        self.raw_headers = pairs  #: (name, value) as bytes, in order, as on the wire
        self.raw_host = host
        self.raw_body = body  #: None: neither Content-Length nor Transfer-Encoding was sent
        self.keep_alive = keep_alive
        self.user: Any = None
        self._info = info
        self.headers: CIMultiDict[str] = CIMultiDict(
            (name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in pairs
        )
        path, _, query = target.decode("latin-1").partition("?")
        # Built, not parsed: a target that starts with two slashes is a path here, not an authority.
        self.rel_url = URL.build(path=path, query_string=query, encoded=True)

    @property
    def url(self) -> URL:  # type: ignore[override]  # the base class only annotates an attribute
        """The whole URL as the client sees it."""
        return URL(f"http://{(self.raw_host or b'localhost').decode('latin-1')}").join(self.rel_url)

    @property
    def path(self) -> str:
        """The path, percent-decoded."""
        return self.rel_url.path

    @property
    def raw_path(self) -> str:
        """The path as on the wire."""
        return self.rel_url.raw_path

    @property
    def query_string(self) -> str:  # type: ignore[override]  # the base class only annotates an attribute
        """The query, percent-decoded."""
        return self.rel_url.query_string

    @property
    def query(self) -> Mapping[str, str]:
        """The query as a multi-mapping."""
        return self.rel_url.query

    @property
    def match_info(self) -> Mapping[str, str]:
        """The named parts of the path."""
        return self._info

    @property
    def body_exists(self) -> bool:  # type: ignore[override]  # the base class only annotates an attribute
        """Whether there was a body, which may be empty."""
        return self.raw_body is not None

    @property
    def can_read_body(self) -> bool:  # type: ignore[override]  # a property on aiohttp's request, which Views expect
        """Whether there is a body to read."""
        return bool(self.raw_body)

    @property
    def cookies(self) -> Mapping[str, Any]:
        """Cookies by name; empty if the header is not valid."""
        try:
            return {name: morsel.value for name, morsel in SimpleCookie(self.headers.get("cookie", "")).items()}
        except CookieError:
            return {}

    @property
    def content_type(self) -> str:
        """Media type without parameters."""
        return self.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """Returns the body."""
        return self.raw_body or b""

    async def text(self) -> str:
        """Returns the body as UTF-8."""
        return (self.raw_body or b"").decode()

    async def json(self) -> Any:
        """Returns the body as JSON; raises ValueError."""
        return _json.loads((self.raw_body or b"").decode())

    async def post(self) -> Mapping[str, str]:
        """Returns the fields of a URL-encoded form (no multipart)."""
        if self.content_type != "application/x-www-form-urlencoded":
            return MultiDict()
        return MultiDict(parse_qsl((self.raw_body or b"").decode(), keep_blank_values=True))

    def _date(self, name: str) -> datetime | None:
        try:
            return parsedate_to_datetime(self.headers[name])
        except (KeyError, ValueError):
            return None

    @property
    def if_modified_since(self) -> datetime | None:  # type: ignore[override]  # the base class only annotates it
        """The header as a time; None if absent or not valid."""
        return self._date("if-modified-since")

    @property
    def if_unmodified_since(self) -> datetime | None:  # type: ignore[override]  # the base class only annotates it
        """The header as a time; None if absent or not valid."""
        return self._date("if-unmodified-since")

    @property
    def if_range(self) -> datetime | None:  # type: ignore[override]  # the base class only annotates it
        """The header as a time; None if absent or not valid."""
        return self._date("if-range")
