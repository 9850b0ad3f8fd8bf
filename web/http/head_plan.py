"""Reads the head of a request by what former requests of the same kind had in common. Pure, without the parser.

Clients repeat themselves: of the lines of a head only a few differ from one event to the next. The parser reads the
first requests with a request line and a list of header names. From those a plan is learned: which lines stay the same,
byte by byte, and where the values of the others begin. A head that a plan matches needs no parser.

A plan never accepts a head that the parser rejects: the lines that stay the same have been accepted, in this order, and
the others have the same name in front of printable ASCII. Framing is learned only where it is plain: POST, HTTP/1.1,
`Content-Length` or no body, and a connection that stays open. Everything else is left to the parser, and so is a head
that matches no plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from knative.cloudevents.http_binding import SAFE
from knative.memo import ENTRY_BYTES_MAX, remember_shape
from web.http import headers

_SLASH = ord("/")
_LENGTH, _CONNECTION = b"content-length", b"connection"
#: Lines with these names make a request that is not planned.
_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"content-encoding", b"upgrade", b"proxy-connection"))
_SPACED = b' "%'
#: Of a head that is learned from: a full table of the longest takes 14 MB with what is worked out from them.
_HEAD_BYTES_MAX = 8 * ENTRY_BYTES_MAX

_Key = tuple[bytes, ...]
#: (request line, header names) -> plan. A plan is replaced when one more line turns out to differ.
_plans: dict[_Key, HeadPlan] = {}


class HeadPlan:
    """What is known of all heads with the same request line and the same header names."""

    __slots__ = (
        "_blocks",
        "_last",
        "_lines",
        "_pairs",
        "derived",
        "host",
        "host_at",
        "length",
        "length_at",
        "names",
        "target",
        "varying",
    )

    def __init__(self, lines: Sequence[bytes], varying: set[int]) -> None:
        """`lines` of a head that the parser accepts, without the blank one; `varying`: positions in it of the lines
        that differ."""
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
        self.derived: object = None  #: what a view has worked out from it

    def _varies(self, at: int) -> int:
        return self.varying.index(at) if at in self.varying else -1

    def match(self, data: bytes) -> tuple[list[bytes], int, bool] | None:
        """Match the start of `data`. Returns the values of the lines that differ, in the order of `varying`, the size
        of the head, and whether the values are plain: visible ASCII without `"` and `%`. None: this is another head."""
        values = []
        pos = 0
        for block, size in self._blocks:
            if not data.startswith(block, pos):
                return None
            pos += size
            end = data.find(b"\r", pos)
            values.append(data[pos:end])
            pos = end
        if not data.startswith(self._last, pos):
            return None
        odd = b"".join(values).translate(None, SAFE)
        if odd and (odd.translate(None, _SPACED) or any(value != value.strip(b" ") for value in values)):
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
        if any(self.names[at - 1].lower() == _CONNECTION for at in differ):
            return None
        varying = differ.union(at + 1 for at in self.varying)
        if len(varying) == len(self.varying) and all(_start(lines[at]) == _start(self._lines[at]) for at in varying):
            return None
        return varying


def find(data: bytes) -> HeadPlan | None:
    """Returns the plan for heads with the request line and the names of the head that `data` starts with, if it is
    complete; the plan may not match."""
    end = data.find(b"\r\n\r\n")
    return None if end < 0 else _plans.get(_key(data[:end].split(b"\r\n")))


def learn(lines: Sequence[bytes], url: bytes, pairs: headers.Pairs) -> None:
    """Learn from a head that the parser has accepted, with this URL and these header lines in it: among them one Host
    and at most one Content-Length."""
    if lines[0] != b"POST %b HTTP/1.1" % url or url[0] != _SLASH:
        return
    key = _key(lines)
    former = _plans.get(key)
    varying = set[int]() if former is None else former.widened(lines)
    if varying is not None and _is_ordinary(lines, pairs):
        remember_shape(_plans, key, HeadPlan(lines, varying))


def _is_ordinary(lines: Sequence[bytes], pairs: headers.Pairs) -> bool:
    if sum(map(len, lines)) > _HEAD_BYTES_MAX:
        return False
    if [_pair(line) for line in lines[1:]] != headers.strip(pairs):
        return False
    low = [name.lower() for name, _ in pairs]
    return _UNUSUAL.isdisjoint(low) and all(
        value.lower() == b"keep-alive" for name, value in pairs if name.lower() == _CONNECTION
    )


def _key(lines: Sequence[bytes]) -> _Key:
    return (lines[0], *[line.partition(b":")[0] for line in lines[1:]])


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
