"""Facts of a run, one frozen value and one JSON line each.

Written by the load generator (`sent`), the sink (`received`), an outside reader of Kafka (`stored`, `dead`,
`committed`), a reader of workers' logs (`paused`) and the code that breaks things (`fault`). Times are Unix seconds of
one machine. The checker judges them. A line that cannot be read is an error: evidence that is skipped proves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO, get_args

import orjson


@dataclass(frozen=True, slots=True)
class Sent:
    """One POST to the ingress. `status` 0 = no answer came; `seq` counts the events of a key from 0."""

    id: str
    key: str | None
    seq: int
    status: int
    time_s: float  #: when it was written to the socket
    answered_s: float
    body_hash: str
    attributes_hash: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """One record in the channel's topic, as an outside consumer reads it."""

    topic: str
    partition: int
    offset: int
    id: str
    key: str | None
    body_hash: str


@dataclass(frozen=True, slots=True)
class Received:
    """One request at a subscriber. `attempt` counts from 1 what this subscriber saw of the event; `status` is what it
    answered, 0 = the connection ended before it could."""

    subscription: str
    id: str
    attempt: int
    status: int
    time_s: float  #: when the request was complete
    answered_s: float  #: just before the answer was written
    body_hash: str
    attributes_hash: str


@dataclass(frozen=True, slots=True)
class Dead:
    """One dead letter: a record of the DLQ topic."""

    subscription: str
    id: str
    reason: str
    time_s: float
    body_hash: str


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit of a group, as Kafka stored it."""

    group: str
    topic: str
    partition: int
    offset: int
    time_s: float
    settled: list[int] = field(default_factory=list)  #: offsets above it that are settled too, by its metadata


@dataclass(frozen=True, slots=True)
class Fault:
    """Something was broken on purpose from `from_s` to `to_s`.

    Kinds: `kill` (SIGKILL of a worker), `freeze` (SIGSTOP, or cut off from Kafka, for longer than its session), `kafka`
    (brokers away), `term` (SIGTERM), `join` (a worker comes and takes partitions over).
    """

    kind: str
    from_s: float
    to_s: float
    seed: int = 0
    resumed_s: float | None = None  #: a frozen worker has gone on since, and has not heard until `to_s` what it lost


@dataclass(frozen=True, slots=True)
class Paused:
    """A worker stopped making first attempts for a subscription, because Kafka confirmed no commits."""

    subscription: str
    time_s: float


Fact = Sent | Stored | Received | Dead | Committed | Fault | Paused

_KINDS: dict[str, type[Fact]] = {kind.__name__.lower(): kind for kind in get_args(Fact)}


class BadLedger(ValueError):
    """A ledger line is not a fact; the run proves nothing until that is fixed."""


def encode(fact: Fact) -> bytes:
    """One line without its newline."""
    return orjson.dumps({"fact": type(fact).__name__.lower(), **{f.name: getattr(fact, f.name) for f in fields(fact)}})


def decode(line: bytes) -> Fact:
    """The fact of one line. Raises BadLedger."""
    try:
        members = orjson.loads(line)
        return _KINDS[members.pop("fact")](**members)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadLedger(f"not a fact: {line[:200]!r}: {error!r}") from error


def read(*paths: Path) -> Iterator[Fact]:
    """All facts of these files, file after file. Raises BadLedger with file and line."""
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line)
                except BadLedger as error:
                    raise BadLedger(f"{path}:{number}: {error}") from error


class Writer:
    """Appends facts to a file; `flush` makes them readable. One thread."""

    def __init__(self, path: Path, buffer_bytes: int = 1 << 18) -> None:
        self._file: BinaryIO = path.open("ab", buffering=buffer_bytes)

    def write(self, fact: Fact) -> None:
        self._file.write(encode(fact) + b"\n")

    def write_all(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.write(fact)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def body_hash(body: bytes | None) -> str:
    """16 hex digits; no body (a null record value) and a body of no bytes hash alike: HTTP cannot tell them apart."""
    return hashlib.blake2b(body or b"", digest_size=8).hexdigest()


def attributes_hash(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    """16 hex digits over the CloudEvents attributes of a request: `ce-*` headers and content-type, in any order.

    Values are hashed as they are on the wire, so a sender must write them in the canonical encoding.
    """
    named = sorted((name.lower(), value) for name, value in pairs)
    kept = [pair for pair in named if pair[0].startswith(b"ce-") or pair[0] == b"content-type"]
    return hashlib.blake2b(b"\0".join(part for pair in kept for part in pair), digest_size=8).hexdigest()
