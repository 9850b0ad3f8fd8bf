"""What a request's header lines say about how to read it, and which of them are refused.

Pure: (name, value) pairs in, a tuple or an `HttpRejection` out. The parser (httptools) has already refused bare LF,
obs-fold, NUL and control characters, a space before the colon, two Content-Lengths, and Content-Length beside
Transfer-Encoding; here is what it lets pass. Refuses to look at `ce-` headers: what they mean is the mapping's
business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from web.http.config import DriverConfig, HttpRejection

Pairs = list[tuple[bytes, bytes]]
#: The header lines of a request: by name, where no name is there twice, else one by one.
Fields = dict[bytes, bytes] | Pairs

_HOST, _LENGTH, _CODING, _EXPECT, _ENCODING = 1, 2, 3, 4, 5
_WATCHED = {
    b"Host": _HOST,
    b"Content-Length": _LENGTH,
    b"host": _HOST,
    b"content-length": _LENGTH,
    b"transfer-encoding": _CODING,
    b"expect": _EXPECT,
    b"content-encoding": _ENCODING,
}
#: Names met so far that are none of those. Bounded, so that clients cannot fill it.
_ordinary: set[bytes] = set()
_NAMES_MAX, _NAME_BYTES_MAX = 2048, 64
LENGTH_DIGITS_MAX = 18
#: reg-name, IPv4, [IPv6] and a port: no white space, comma, slash, user information.
_HOST_SHAPE = re.compile(rb"(?:\[[0-9A-Fa-f:.%\w]*\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?").fullmatch
_good_hosts: set[bytes] = set()
_REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} [!-~]+ HTTP/1\.[01]\r\n").match
ALLOW = "POST, OPTIONS"  #: for requests that are refused before any View


def pairs_of(fields: Fields) -> Pairs:
    """The header lines one by one, without white space around values; a list of its own."""
    return strip(fields.items() if isinstance(fields, dict) else fields)


class Shape(NamedTuple):
    """Of the header lines of an ordinary request: which of their names, as they are on the wire, frame it."""

    host: bytes
    length: bytes | None


#: The names of a request's header lines -> its shape, None when it is not ordinary. A client repeats its names.
_shapes: dict[tuple[bytes, ...], Shape | None] = {}
_SHAPES_MAX, _SHAPE_NAMES_MAX = 512, 48
#: Lines that ask for more than reading `Content-Length` bytes.
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"content-encoding", b"upgrade"))


def shape_of(fields: Mapping[bytes, bytes]) -> Shape | None:
    """The shape of an ordinary request; None for one that has to be read with more care."""
    names = tuple(fields)
    try:
        return _shapes[names]
    except KeyError:
        return _learn_shape(names)


def _learn_shape(names: tuple[bytes, ...]) -> Shape | None:
    by_name: dict[bytes, list[bytes]] = {}
    for name in names:
        by_name.setdefault(name.lower(), []).append(name)
    hosts, lengths = by_name.get(b"host", []), by_name.get(b"content-length", [])
    shape = None
    if len(hosts) == 1 and len(lengths) <= 1 and not _UNUSUAL & by_name.keys():
        shape = Shape(hosts[0], lengths[0] if lengths else None)
    if len(names) <= _SHAPE_NAMES_MAX and all(len(name) <= _NAME_BYTES_MAX for name in names):
        if len(_shapes) >= _SHAPES_MAX:
            _shapes.clear()  # starting afresh lets the common ones back in after a flood of rare ones
        _shapes[names] = shape
    return shape


def _learn(name: bytes) -> int:
    code = _WATCHED.get(name.lower(), 0)
    if code == 0 and len(_ordinary) < _NAMES_MAX and len(name) <= _NAME_BYTES_MAX:
        _ordinary.add(name)
    return code


def check_count(pairs: Sequence[tuple[bytes, bytes]], config: DriverConfig) -> None:
    """Raises Refusal for too many header lines."""
    if len(pairs) > config.header_count_max:
        raise HttpRejection(431, f"more than {config.header_count_max} header lines")


def inspect(pairs: Sequence[tuple[bytes, bytes]], config: DriverConfig) -> tuple[bytes | None, int | None, bool, bool]:
    """-> (Host, Content-Length, is chunked, wants `100 Continue`); raises Refusal."""
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
                raise HttpRejection(400, "two Host headers")
            host = value if is_good_host(value) else check_host(value)
        elif code == _LENGTH:
            length = int(value) if len(value) <= LENGTH_DIGITS_MAX else config.event_bytes_max + 1
            if length > config.event_bytes_max:
                raise HttpRejection(413, f"a body of more than {config.event_bytes_max} bytes")
        elif code == _CODING:
            if chunked or value.lower() != b"chunked":
                raise HttpRejection(400, "a Transfer-Encoding other than chunked")
            chunked = True
        elif code == _EXPECT:
            expects = value.lower() == b"100-continue"
        elif value.lower() not in (b"", b"identity"):
            raise HttpRejection(400, "a Content-Encoding other than identity: send the event as it is")
    return host, length, chunked, expects


is_good_host = _good_hosts.__contains__


def learn_host(value: bytes) -> bool:
    """Whether a Host value can be one; what can is known to `is_good_host` from then on."""
    if value not in _good_hosts:
        if len(value) > 300 or not _HOST_SHAPE(value):
            return False
        if len(_good_hosts) >= _NAMES_MAX:
            _good_hosts.clear()
        _good_hosts.add(value)
    return True


def check_host(value: bytes) -> bytes:
    """A Host value that can be one; raises Refusal."""
    if not learn_host(value):
        raise HttpRejection(400, "a Host header that is no host")
    return value


def check_text(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    """For a head that is not all ASCII: raises Refusal when a value is not UTF-8."""
    for name, value in pairs:
        try:
            value.decode()
        except UnicodeDecodeError:
            raise HttpRejection(400, f"header {name.decode('latin-1')} is not UTF-8") from None


def strip(pairs: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Without the white space after a value, which is not part of it (the parser leaves it)."""
    return [(name, value.rstrip(b" \t")) for name, value in pairs]


def without_upgrade(method: bytes, url: bytes, version: str, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The same head again, without `Upgrade`: what a parser may see that would stop at that header."""
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode())]
    lines += [name + b": " + value for name, value in pairs if name.lower() != b"upgrade"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def unknown_method(data: bytes, start: int) -> HttpRejection:
    """For what the parser knows no method of: 405 when all else of the request line is as it must be."""
    if _REQUEST_LINE(data, start):
        return HttpRejection(405, "events are sent by POST", (("allow", ALLOW),))
    return HttpRejection(400, "not HTTP/1.1: no request line")


def split_target(target: bytes, host: bytes | None) -> tuple[bytes, bytes | None]:
    """-> (path, host) of a request target and its Host header. Raises Refusal.

    A target in absolute form (`http://host/path`) names the host itself, and Host is ignored (RFC 9112, 3.2.2).
    """
    if target[:1] == b"/" or target == b"*":
        return target, host
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        raise HttpRejection(400, "a request target that is neither a path nor an http URL")
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if not authority or authority[:1] == b":" or not learn_host(authority):
        raise HttpRejection(400, "the request target is a URL without a valid host")
    return (path if path[:1] == b"/" else b"/" + path), authority
