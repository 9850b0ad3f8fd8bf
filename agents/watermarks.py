"""The watermark of one partition: the lowest unsettled offset, and in few characters what lies settled above it.

    offsets     100 101 102 103 104 105 106      committed: offset 102, metadata: settled {103, 105}, attempts {102: 2}
                 s   s   .   s   .   s   .       s = settled
                         ^next               ^fetched

A crash then repeats only what was settled after the last commit: the next owner reads from 102, skips 103 and 105, and
gives 102 its third attempt. The metadata string of a commit is bounded by the broker (4,096 characters); `fits` says
whether one more record may be started so that whatever happens to it can still be written down. What was settled is
never cut.

Refuses to know Kafka, HTTP or lanes: offsets in, offsets and a string out.
"""

from __future__ import annotations

import base64
import zlib
from collections import deque
from collections.abc import Iterable, Mapping

#: Offsets between the watermark and the newest started record: 12,288 bits = 1,536 bytes raw, in the worst case.
SPAN_MAX = 12_288
#: Started and unsettled records, each with an attempt count: at most 4 bytes each.
STARTED_MAX = 400
#: Worst case: (1,536 + 4 * 400 + 14) * 5/4 characters + prefix < METADATA_MAX; the broker refuses 4,096.
METADATA_MAX = 4_000
_PREFIX = "p1:"
_ATTEMPTS_MAX = 16_383  # two varint bytes


class Watermark:
    """Offsets of one partition from being fetched to being settled. `next` never goes down."""

    __slots__ = ("attempts", "changes", "fetched", "inherited", "inherited_max", "next", "order", "settled")

    def __init__(
        self, start: int, settled: frozenset[int] = frozenset(), attempts: Mapping[int, int] | None = None
    ) -> None:
        """`start`: the committed offset; `settled` and `attempts`: what its metadata said (see `parse`)."""
        self.next = start  #: lowest unsettled offset: what is committed
        self.fetched = start  #: one past the newest record taken from Kafka
        self.order: deque[int] = deque()  # fetched and not yet below the mark, ascending
        self.settled = set(settled)  # settled and not below the mark
        self.attempts = dict(attempts or {})  #: failed attempts of records that are not settled yet
        self.inherited_max = max(settled, default=-1)
        self.inherited = bool(settled)  # `settled` still holds offsets that an earlier owner settled
        self.changes = 0  #: grows whenever there is something new to commit

    def add(self, offset: int) -> bool:
        """A record was fetched. False: it was settled by an earlier owner, or fetched before: do not deliver it."""
        if offset != self.fetched:
            if offset < self.fetched:
                return False
            if not self.order:  # compaction or retention: what lay between is in no log, and must not keep this waiting
                self._move(offset)
        self.fetched = offset + 1
        if self.inherited and offset in self.settled:
            if self.order:
                self.order.append(offset)
            else:
                self.settled.discard(offset)
                self._move(self.fetched)
            return False
        self.order.append(offset)
        return True

    def settle(self, offset: int) -> None:
        """The record is settled; the mark moves over everything that is settled in a row."""
        self.changes += 1
        if self.attempts:
            self.attempts.pop(offset, None)
        order = self.order
        if order[0] != offset:
            self.settled.add(offset)
            return
        order.popleft()
        settled = self.settled
        if settled:
            while order and order[0] in settled:
                settled.discard(order.popleft())
        self._move(order[0] if order else self.fetched)

    def failed(self, offset: int, attempts: int) -> None:
        """`attempts` were made for this unsettled record so far: to be committed before the next one."""
        self.attempts[offset] = attempts
        self.changes += 1

    def skip_to(self, offset: int) -> None:
        """Records below `offset` are gone from the log (retention); what is in memory is still delivered."""
        assert offset >= self.fetched, "only records that were not fetched can be skipped"
        self.fetched = offset
        self.changes += 1
        if not self.order:
            self._move(offset)

    def fits(self, offset: int) -> bool:
        """True when a record at `offset` can be started and its settling still be written down."""
        return offset - self.next < SPAN_MAX

    def _move(self, mark: int) -> None:
        assert mark >= self.next, f"the watermark would go down: {self.next} -> {mark}"
        self.next = mark
        if self.inherited:
            # Settled by an earlier owner and since gone from the log: never fetched, so never popped from `order`.
            self.settled = {offset for offset in self.settled if offset >= mark}
            self.inherited = mark <= self.inherited_max

    def metadata(self) -> str:
        """What is settled at or above `next`, and the attempts of unsettled records; "" when there is neither."""
        if not self.settled and not self.attempts:
            return ""
        base = self.next
        bits = bytearray((max(self.settled) - base) // 8 + 1) if self.settled else bytearray()
        for offset in self.settled:
            index = offset - base
            bits[index >> 3] |= 1 << (index & 7)
        # An earlier owner may have counted attempts of records that have since gone from the log.
        entries = [(offset, self.attempts[offset]) for offset in sorted(self.attempts) if offset >= base]
        text = _pack(base, bits, entries)
        while len(text) > METADATA_MAX:
            # Only when an earlier owner counted many in another order mode. A forgotten count costs an attempt more.
            assert entries, f"commit metadata of {len(text)} characters: started beyond what fits"
            entries = entries[: len(entries) * 3 // 4]
            text = _pack(base, bits, entries)
        return text


def _pack(base: int, bits: bytes | bytearray, entries: Iterable[tuple[int, int]]) -> str:
    raw = bytearray(_varint(len(bits)) + bits)
    last = base
    for offset, attempts in entries:
        raw += _varint(offset - last) + _varint(min(attempts, _ATTEMPTS_MAX))
        last = offset
    packed = zlib.compress(bytes(raw), 1)
    body = b"z" + packed if len(packed) < len(raw) else b"r" + bytes(raw)
    return _PREFIX + base64.b85encode(_check(base, body) + body).decode("ascii")


def parse(offset: int, metadata: str | None) -> tuple[frozenset[int], dict[int, int]]:
    """(settled offsets, attempts by offset) above a committed `offset`; nothing for metadata that is not ours.

    Forgetting costs duplicates, inventing would cost events: every doubt reads as "nothing is settled".
    """
    if not metadata or not metadata.startswith(_PREFIX):
        return frozenset(), {}
    try:
        sealed = base64.b85decode(metadata[len(_PREFIX) :])
        body = sealed[2:]
        if sealed[:2] != _check(offset, body):
            return frozenset(), {}
        raw = _inflate(body[1:]) if body[:1] == b"z" else body[1:]
        size, at = _read_varint(raw, 0)
        bits = raw[at : at + size]
        at += size
        settled = {offset + i * 8 + b for i, byte in enumerate(bits) if byte for b in range(8) if byte >> b & 1}
        attempts: dict[int, int] = {}
        last = offset
        while at < len(raw):
            delta, at = _read_varint(raw, at)
            count, at = _read_varint(raw, at)
            last += delta
            attempts[last] = count
    except (ValueError, zlib.error, IndexError):
        return frozenset(), {}
    if len(bits) != size:
        return frozenset(), {}
    return frozenset(settled), {at: count for at, count in attempts.items() if at not in settled}


def _check(offset: int, body: bytes) -> bytes:
    """Ties the metadata to its offset: whoever resets a group's offset by hand does not inherit what was settled."""
    return (zlib.crc32(body, offset & 0xFFFFFFFF) & 0xFFFF).to_bytes(2, "big")


def _inflate(packed: bytes) -> bytes:
    """At most 64 KiB: somebody else's metadata must not be a bomb."""
    inflater = zlib.decompressobj()
    raw = inflater.decompress(packed, 65_536)
    if inflater.unconsumed_tail or not inflater.eof:
        raise ValueError("metadata too large")
    return raw


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 35:
            raise ValueError("number too long")
