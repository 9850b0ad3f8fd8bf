"""Generates CloudEvents as complete HTTP requests: seeded, cheap, and verifiable by the receiver.

Each body is one of a pool of random bodies and, in a checked run, travels with its hash as attribute `bodyhash`, so
that a subscriber detects a changed body without knowing what was sent. Does not send or count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.ledger.facts import attributes_hash, body_hash

_POOL = 512
TYPE = "load.event"

#: A value that each mapping gets wrong in its own way: space, quote, percent, not ASCII; in the canonical encoding.
NOTE = b"a%20%22b%22%20100%25%20%C3%A9%E2%82%AC"


@dataclass(frozen=True, slots=True)
class Event:
    """One event ready to be written to a socket; hashes are "" in an unchecked run."""

    id: str
    key: str | None
    seq: int
    request: bytes
    body_hash: str
    attributes_hash: str
    type: str = TYPE


class Events:
    """Makes events `<run>-0`, `<run>-1`, ... of `keys` keys (0 = no key) to one URL; `stamped`: with the time in
    `sent`, for who wants to know how long an event was on its way. Each event has one of `types`, at random."""

    def __init__(
        self,
        url: str,
        *,
        run: str,
        keys: int,
        body_bytes: int,
        seed: int,
        checked: bool,
        stamped: bool = False,
        types: Sequence[str] = (TYPE,),
    ) -> None:
        parts = urlsplit(url)
        self._run, self._checked, self._stamped, self.keys = run, checked, stamped, keys
        self._next = 0
        self._seqs = [0] * max(keys, 1)
        random_bytes = random.Random(seed)
        self._types, self._chance = types, random.Random(seed)
        self._pool = [random_bytes.randbytes(body_bytes) for _ in range(_POOL)]
        self._hashes = [body_hash(body) for body in self._pool]
        self._head = (
            f"POST {parts.path or '/'} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {body_bytes}\r\n".encode()
        )
        self._fixed = [
            (b"content-type", b"application/octet-stream"),
            (b"ce-specversion", b"1.0"),
            (b"ce-source", b"/load"),
            (b"ce-time", b"2026-11-21T10:00:00.123456789Z"),
        ]
        if checked:
            self._fixed.append((b"ce-note", NOTE))
        self._lines = b"".join(b"%b: %b\r\n" % pair for pair in self._fixed)

    def make(self, key_number: int) -> Event:
        """Returns the next event of this key (ignored when there are no keys)."""
        number, self._next = self._next, self._next + 1
        seq = self._seqs[key_number]
        self._seqs[key_number] = seq + 1
        key = f"k{key_number}" if self.keys else None
        event_id, which = f"{self._run}-{number}", number % _POOL
        type_ = self._types[0] if len(self._types) == 1 else self._chance.choice(self._types)
        own = [(b"ce-id", event_id.encode()), (b"ce-type", type_.encode())]
        if key is not None:
            own.append((b"ce-partitionkey", key.encode()))
        if self._checked:
            own.append((b"ce-bodyhash", self._hashes[which].encode()))
        if self._stamped:
            own.append((b"ce-sent", b"%.6f" % time.time()))
        lines = b"".join(b"%b: %b\r\n" % pair for pair in own)
        request = b"%b%b%b\r\n%b" % (self._head, self._lines, lines, self._pool[which])
        hashes = (self._hashes[which], attributes_hash(self._fixed + own)) if self._checked else ("", "")
        return Event(event_id, key, seq, request, *hashes, type_)

    def headers(self, event: Event) -> Iterator[tuple[str, bytes]]:
        """Yields the record headers the event has in Kafka, for filling a topic without an ingress."""
        for name, value in [*self._fixed, (b"ce-id", event.id.encode()), (b"ce-type", event.type.encode())]:
            yield name.decode().replace("ce-", "ce_"), value
        if event.key is not None:
            yield "ce_partitionkey", event.key.encode()
