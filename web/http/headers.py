"""Checks a request's header lines and finds out how to read its body. Pure.

The parser (httptools) has already rejected bare LF, obs-fold, NUL and control characters, a space before the colon, two
Content-Lengths, and Content-Length together with Transfer-Encoding. This module rejects what the parser accepts. The
meaning of `ce-` headers belongs to `knative/cloudevents/http_binding`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from knative.memo import remember
from web.http.config import DriverConfig, HttpRejection

Pairs = list[tuple[bytes, bytes]]

_HOST, _LENGTH, _CODING, _EXPECT, _ENCODING = range(1, 6)  # no Enum: looking its members up takes longer
_WATCHED = {
    b"Host": _HOST,
    b"Content-Length": _LENGTH,
    b"host": _HOST,
    b"content-length": _LENGTH,
    b"transfer-encoding": _CODING,
    b"expect": _EXPECT,
    b"content-encoding": _ENCODING,
}
#: Known names that need no check.
_ordinary: dict[bytes, None] = {}
LENGTH_DIGITS_MAX = 18
#: reg-name, IPv4 or [IPv6], with an optional port. No white space, comma, slash or user information.
_HOST_SHAPE = re.compile(rb"(?:\[[0-9A-Fa-f:.%\w]*\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?").fullmatch
_good_hosts: dict[bytes, None] = {}
_REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} [!-~]+ HTTP/1\.[01]\r\n").match
ALLOW = "POST, OPTIONS"  #: `Allow` of requests that are rejected before any View


def _learn(name: bytes) -> int:
    code = _WATCHED.get(name.lower(), 0)
    if code == 0:
        remember(_ordinary, name, None)
    return code


def check_count(pairs: Sequence[tuple[bytes, bytes]], config: DriverConfig) -> None:
    """Raises HttpRejection if there are too many header lines."""
    if len(pairs) > config.header_count_max:
        raise HttpRejection(431, f"the request has more than {config.header_count_max} header lines")


def inspect(pairs: Sequence[tuple[bytes, bytes]], config: DriverConfig) -> tuple[bytes | None, int | None, bool, bool]:
    """-> (Host, Content-Length, is chunked, wants `100 Continue`). Raises HttpRejection."""
    check_count(pairs, config)
    host: bytes | None = None
    length: int | None = None
    chunked = expects = False
    ordinary = _ordinary
    for name, value in pairs:
        if name in ordinary:
            continue
        code = _WATCHED.get(name) or _learn(name)
        if code == 0:
            continue
        if code == _HOST:
            if host is not None:
                raise HttpRejection(400, "the request has two Host headers")
            if not is_valid_host(value):
                raise HttpRejection(400, "the Host header is not a valid host")
            host = value
        elif code == _LENGTH:
            length = int(value) if len(value) <= LENGTH_DIGITS_MAX else config.event_bytes_max + 1
            if length > config.event_bytes_max:
                raise HttpRejection(413, f"the body has more than {config.event_bytes_max} bytes")
        elif code == _CODING:
            if chunked or value.lower() != b"chunked":
                raise HttpRejection(400, "the only supported Transfer-Encoding is chunked")
            chunked = True
        elif code == _EXPECT:
            expects = value.lower() == b"100-continue"
        elif value.lower() not in (b"", b"identity"):
            raise HttpRejection(400, "Content-Encoding is not supported: send the event without it")
    return host, length, chunked, expects


def is_valid_host(value: bytes) -> bool:
    """Returns whether a Host value is valid."""
    if value not in _good_hosts:
        if len(value) > 300 or not _HOST_SHAPE(value):
            return False
        remember(_good_hosts, value, None)
    return True


def check_text(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    """Checks a head that is not all ASCII: raises HttpRejection if a value is not UTF-8."""
    for name, value in pairs:
        if not is_utf8(value):
            raise HttpRejection(400, f"header {name.decode('latin-1')} is not UTF-8")


def is_utf8(value: bytes) -> bool:
    """Returns whether a value is UTF-8, as ASCII is."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def strip(pairs: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Returns the lines without white space after values. It is not part of the value, but the parser keeps it."""
    return [(name, value.rstrip(b" \t")) for name, value in pairs]


def without_upgrade(method: bytes, url: bytes, version: str, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the same head without `Upgrade`, for a parser that would otherwise stop at this header."""
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode())]
    lines += [name + b": " + value for name, value in pairs if name.lower() != b"upgrade"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def unknown_method(data: bytes, start: int) -> HttpRejection:
    """Returns the answer for an unknown method: 405 if the rest of the request line is valid, else 400."""
    if _REQUEST_LINE(data, start):
        return HttpRejection(405, "send events with POST", (("allow", ALLOW),))
    return HttpRejection(400, "not HTTP/1.1: the request line is not valid")


def split_target(target: bytes, host: bytes | None) -> tuple[bytes, bytes | None]:
    """-> (path, host) of a request target and its Host header. Raises HttpRejection.

    A target in absolute form (`http://host/path`) has its own host, and Host is ignored (RFC 9112, 3.2.2).
    """
    if target[:1] == b"/" or target == b"*":
        return target, host
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        raise HttpRejection(400, "the request target must be a path or an http URL")
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if not authority or authority[:1] == b":" or not is_valid_host(authority):
        raise HttpRejection(400, "the request target is a URL without a valid host")
    return (path if path[:1] == b"/" else b"/" + path), authority
