"""Reads the head of a request by what former requests of the same kind had in common. Pure, without the parser.

Clients repeat themselves: of the lines of a head only a few differ from one event to the next. The parser reads the
first requests with a request line and a list of header names. From those a plan is learned: which lines stay the same,
byte by byte, and where the values of the others begin. A head that a plan matches needs no parser.

A plan never accepts a head that the parser rejects: the lines that stay the same have been accepted, in this order, and
the others have the same name in front of UTF-8 without control characters. Framing is learned only where it is plain:
POST, HTTP/1.1, and `Content-Length` or no body. Everything else is left to the parser, and so is a head that matches no
plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from knative.cloudevents.http_binding import SAFE
from knative.memo import ENTRY_BYTES_MAX, SHAPE_NAMES_MAX, SHAPES_MAX, put
from web.http import headers

_LENGTH = b"content-length"
#: Lines with these names make a request that is not planned.
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"content-encoding", b"proxy-connection"))
#: The names of header lines. What decides whether the connection is kept belongs to the key as a whole.
_names = re.compile(rb"\n((?i:connection:[^\r]*)|[^:]*)").findall
_PLAIN = SAFE + b"\r"
_VALUE = rb"(?:[!-~\x80-\xff]++(?:[ \t]++[!-~\x80-\xff]++)*+)?+"
_are_values = re.compile(rb"%b(?:\r%b)*+" % (_VALUE, _VALUE)).fullmatch
#: Of a head that is learned from: a full table of the longest takes 20 MB with what is worked out from them.
_HEAD_BYTES_MAX = 8 * ENTRY_BYTES_MAX

_Key = tuple[bytes, ...]
#: (request line, header names) -> plan, which is replaced when one more line turns out to differ. None: the next head
#: makes the plan, because a query may be another one each time. False: there is no plan.
_plans: dict[_Key, HeadPlan | Literal[False] | None] = {}


class HeadPlan:
    """What is known of all heads with the same request line and the same header names."""

    __slots__ = (
        "__weakref__",
        "_blocks",
        "_last",
        "_lines",
        "_pairs",
        "derived",
        "host",
        "host_at",
        "keep",
        "length",
        "length_at",
        "names",
        "target",
        "varying",
    )

    def __init__(self, lines: Sequence[bytes], varying: set[int], keep: bool) -> None:
        """`lines` of a head that the parser accepts, without the blank one; `varying`: positions in it of the lines
        that differ; `keep`: the client allows another request on the connection."""
        pairs = self._pairs = [_pair(line) for line in lines[1:]]
        starts = [_start(line) if at in varying else line for at, line in enumerate(lines)]
        self._lines = lines
        *blocks, self._last = _between(starts, varying)
        self._blocks = [(block, len(block)) for block in blocks]
        self.names = tuple(name for name, _ in pairs)
        self.varying = tuple(at - 1 for at in sorted(varying))  #: positions in `names` of what `match` returns
        self.target = lines[0].split(b" ")[1]
        low = [name.lower() for name in self.names]
        host = low.index(b"host")
        self.host: bytes = pairs[host][1]
        self.host_at = self._varies(host)  #: its position in what `match` returns; -1: it is always `host`
        length = low.index(_LENGTH) if _LENGTH in low else None
        self.length = None if length is None else int(pairs[length][1])  #: None: there is no body
        self.length_at = -1 if length is None else self._varies(length)  #: likewise
        self.keep = keep
        self.derived: object = None  #: what a view has worked out from it

    def _varies(self, at: int) -> int:
        return self.varying.index(at) if at in self.varying else -1

    def match(self, data: bytes, pos: int) -> tuple[list[bytes], int, bool] | None:
        """Match `data` from `pos` on. Returns the values of the lines that differ, in the order of `varying`, where the
        head ends, and whether the values are plain: visible ASCII without `"` and `%`. None: this is another head."""
        values = []
        for block, size in self._blocks:
            if not data.startswith(block, pos):
                return None
            pos += size
            end = data.find(b"\r", pos)
            values.append(data[pos:end])
            pos = end
        if not data.startswith(self._last, pos):
            return None
        joined = b"\r".join(values)
        odd = joined.translate(None, _PLAIN)
        if odd and not are_values(joined):
            return None
        return values, pos + len(self._last), not odd

    def pairs(self, values: Sequence[bytes]) -> headers.Pairs:
        """Returns all header lines of a head for which `match` returned `values`, without space around them."""
        pairs = self._pairs.copy()
        for at, value in zip(self.varying, values, strict=True):
            pairs[at] = (self.names[at], value)
        return pairs

    def widened(self, lines: Sequence[bytes]) -> set[int] | None:
        """Returns the positions of the lines that differ in a plan that matches these lines too, which have the same
        names; None if another plan would match no more than this one."""
        differ = {at for at, (line, former) in enumerate(zip(lines, self._lines, strict=True)) if line != former}
        varying = differ.union(at + 1 for at in self.varying)
        if len(varying) == len(self.varying) and all(_start(lines[at]) == _start(self._lines[at]) for at in varying):
            return None
        return varying


def are_values(joined: bytes) -> bool:
    """Returns whether these values, with a CR between two, are accepted by the parser, by us, and kept as they are."""
    return _are_values(joined) is not None and headers.is_utf8(joined)


def find(data: bytes, start: int) -> tuple[_Key | None, HeadPlan | None]:
    """Returns for the head in `data` from `start` on the key to learn by, and the plan for heads with this request line
    and these names, which may not match. No key: the head is not complete, or one that is not planned."""
    if not data.startswith(b"POST /", start):
        return None, None
    end = data.find(b"\r\n\r\n", start, start + _HEAD_BYTES_MAX)
    if end < 0 or data.find(b"chunked", start, end) >= 0:  # most of what is not planned
        return None, None
    line = data.find(b"\r", start)
    key = (data[start:line], *_names(data, line, end))
    plan = _plans.get(key)
    return (None, None) if plan is False else (key, plan)


def learn(key: _Key, head: bytes, url: bytes, pairs: headers.Pairs, keep: bool) -> None:
    """Learn from a head that the parser has accepted. `key`: of `find`, for this head. What the parser has seen in
    it: `url`, `pairs`, among them one Host and at most one Content-Length, and whether to `keep` the connection."""
    plan = _plans.get(key)
    if key in _plans:
        lines = head[:-4].split(b"\r\n")
        varying = plan.widened(lines) if plan else set()
        if varying is None or [_pair(line) for line in lines[1:]] != pairs:
            return
        plan = _is_ordinary(key, url) and HeadPlan(lines, varying, keep)
    put(_plans, key, plan, SHAPES_MAX)


def _is_ordinary(key: _Key, url: bytes) -> bool:
    first, *names = key
    return (
        first == b"POST %b HTTP/1.1" % url
        and len(names) <= SHAPE_NAMES_MAX
        and _UNUSUAL.isdisjoint(map(bytes.lower, names))
    )


def _pair(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")


def _between(starts: Sequence[bytes], varying: set[int]) -> list[bytes]:
    """Returns the bytes of a head before each value that differs, and after the last one. `starts`: its lines, those
    that differ without their values."""
    blocks = [b""]
    for at, start in enumerate(starts):
        blocks[-1] += start
        if at in varying:
            blocks.append(b"")
        blocks[-1] += b"\r\n"
    blocks[-1] += b"\r\n"
    return blocks


def _start(line: bytes) -> bytes:
    """Returns the line up to its value."""
    name, colon, value = line.partition(b":")
    return name + colon + value[: len(value) - len(value.lstrip(b" \t"))]
