"""Codec of the commit metadata: offsets settled above the committed one, attempts made, and their next times. Pure.

    "p2:" + base85( check . r|z . raw )            z = raw is deflated, where that is shorter
    raw = bits of the settled offsets, base time, then for each failing record: distance, attempts, time code

The broker rejects a string of 4,096 characters. Settled offsets are never dropped, because each one that is dropped is
delivered twice. A time takes one byte: seconds after the earliest time, on a scale with seven steps per doubling,
rounded up. The next owner waits at most a tenth longer than the time that was left, and never less.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

#: Offsets from the committable one to the newest started record: 12,288 bits = 1,536 bytes raw, in the worst case.
SPAN_MAX = 12_288
#: Started and unsettled records, each with attempts and a time: at most 5 bytes each.
STARTED_MAX = 320
#: Worst case: (1,536 + 5 * 320 + 20) * 5/4 characters + prefix < METADATA_MAX; the broker rejects 4,096.
METADATA_MAX = 4_000
_PREFIX = "p2:"
_ATTEMPTS_MAX = 16_383  # two varint bytes
_STEPS = 7  # for each doubling of a time
_CODE_MAX = 127  # one varint byte; 0 = no time


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """The decoded metadata of one commit."""

    settled: frozenset[int] = frozenset()
    attempts: Mapping[int, int] = field(default_factory=dict)  #: failed ones, by offset of an unsettled record
    due: Mapping[int, float] = field(default_factory=dict)  #: Unix seconds of the next attempt, where it has a time


NO_METADATA = OffsetMetadata()


def write(base: int, settled: Set[int], attempts: Mapping[int, int], due: Mapping[int, float]) -> str:
    """Returns the metadata of a commit at offset `base`; all of `settled` is above it. "" when both are empty."""
    if not settled and not attempts:
        return ""
    bits = bytearray((max(settled) - base) // 8 + 1) if settled else bytearray()
    for offset in settled:
        index = offset - base
        bits[index >> 3] |= 1 << (index & 7)
    # An earlier owner may have counted attempts of records that retention has deleted since.
    entries = [(offset, attempts[offset]) for offset in sorted(attempts) if offset >= base]
    text = _pack(base, bits, entries, due)
    while len(text) > METADATA_MAX:
        # Happens only when an earlier owner counted many attempts under another DeliveryOrder. Counts may be dropped,
        # settled offsets may not: a lost count costs one more attempt, a lost offset costs a duplicate.
        assert entries, f"commit metadata of {len(text)} characters: started beyond what fits"
        entries = entries[: len(entries) * 3 // 4]
        text = _pack(base, bits, entries, due)
    return text


def _pack(base: int, bits: bytes | bytearray, entries: Iterable[tuple[int, int]], due: Mapping[int, float]) -> str:
    first_ms = math.ceil(1000 * min((due[offset] for offset, _ in entries if offset in due), default=0.0))
    raw = bytearray(_varint(len(bits)) + bits + _varint(first_ms))
    last = base
    for offset, made in entries:
        code = _code(due[offset] - first_ms / 1000) if offset in due else 0
        raw += _varint(offset - last) + _varint(min(made, _ATTEMPTS_MAX)) + _varint(code)
        last = offset
    packed = zlib.compress(bytes(raw), 1)
    body = b"z" + packed if len(packed) < len(raw) else b"r" + bytes(raw)
    return _PREFIX + base64.b85encode(_check(base, body) + body).decode("ascii")


def read(offset: int, metadata: str | None) -> OffsetMetadata:
    """Decode the metadata of a commit at `offset`; NO_METADATA for metadata that Penstock did not write.

    A settled offset that is missed costs a duplicate, an invented one costs an event. So anything doubtful decodes as
    "nothing is settled".
    """
    if not metadata or not metadata.startswith(_PREFIX):
        return NO_METADATA
    try:
        sealed = base64.b85decode(metadata[len(_PREFIX) :])
        body = sealed[2:]
        if sealed[:2] != _check(offset, body):
            return NO_METADATA
        return _unpack(offset, _inflate(body[1:]) if body[:1] == b"z" else body[1:])
    except (ValueError, zlib.error, IndexError):
        return NO_METADATA


def _unpack(offset: int, raw: bytes) -> OffsetMetadata:
    """Unpack `raw`. Raises ValueError or IndexError when `raw` is incomplete."""
    size, at = _read_varint(raw, 0)
    bits = raw[at : at + size]
    if len(bits) != size:
        raise ValueError("cut off")
    settled = frozenset(offset + i * 8 + b for i, byte in enumerate(bits) if byte for b in range(8) if byte >> b & 1)
    first_ms, at = _read_varint(raw, at + size)
    attempts: dict[int, int] = {}
    due: dict[int, float] = {}
    last = offset
    while at < len(raw):
        delta, at = _read_varint(raw, at)
        made, at = _read_varint(raw, at)
        code, at = _read_varint(raw, at)
        last += delta
        if last in settled:
            continue
        attempts[last] = made
        if code:
            due[last] = first_ms / 1000 + _seconds(min(code, _CODE_MAX))
    return OffsetMetadata(settled, attempts, due)


def _code(seconds: float) -> int:
    """Returns 1 to _CODE_MAX; _CODE_MAX means three days or longer."""
    code = 1 + math.ceil(_STEPS * math.log2(1 + max(seconds, 0.0)))
    return min(code, _CODE_MAX)


def _seconds(code: int) -> float:
    return float(2 ** ((code - 1) / _STEPS) - 1)


def _check(offset: int, body: bytes) -> bytes:
    """Ties the metadata to its offset: old metadata does not apply after `kafka-consumer-groups --reset-offsets`."""
    return (zlib.crc32(body, offset & 0xFFFFFFFF) & 0xFFFF).to_bytes(2, "big")


def _inflate(packed: bytes) -> bytes:
    """Inflate to at most 64 KiB: another client may have written the metadata, as a decompression bomb."""
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
