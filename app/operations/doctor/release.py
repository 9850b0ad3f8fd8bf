"""Asks a broker which release of Kafka it is, with the one request that every release answers.

The Kafka client asks this too, and does not say the answer. A broker names the highest version of the metadata format
that it knows, and each release has another one; a broker with ZooKeeper names none.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from tables.kafka.connection.probe import split_address
from tables.timing import ANSWER_S

_FEATURE = "metadata.version"
#: The highest metadata version of a release -> its number.
_RELEASES = (
    (7, "3.3"), (8, "3.4"), (11, "3.5"), (14, "3.6"), (19, "3.7"), (20, "3.8"), (21, "3.9"), (25, "4.0"), (27, "4.1"),
    (29, "4.2"), (30, "4.3"), (33, "4.4"),
)  # fmt: skip


class _Request(NamedTuple):
    """The numbers at the beginning of a request."""

    key: int
    version: int
    correlation: int


_API_VERSIONS = _Request(18, 3, 1)


def release(bootstrap: str, limit_s: float = ANSWER_S) -> str | None:
    """Returns text such as "4.1", of the first broker that answers; None = not known. Blocks."""
    for address in bootstrap.split(","):
        try:
            with socket.create_connection(split_address(address.strip()), limit_s) as connection:
                connection.settimeout(limit_s)
                connection.sendall(_request())
                (size,) = struct.unpack(">i", _exactly(connection, 4))
                if not 0 < size <= 1_000_000:  # no answer has as many
                    continue
                return release_of(_exactly(connection, size))
        except (OSError, ValueError, struct.error):
            continue
    return None


def release_of(answer: bytes) -> str:
    """Returns the release in an answer without its size. Raises ValueError or struct.error if it is not an answer."""
    highest = _features(answer).get(_FEATURE)
    if highest is None:
        return "3.9 or older, with ZooKeeper"
    return next((name for level, name in _RELEASES if highest <= level), f"newer than {_RELEASES[-1][1]}")


def _request() -> bytes:
    name = b"penstock"
    head = struct.pack(">hhih", *_API_VERSIONS, len(name)) + name + b"\0"
    body = bytes([len(name) + 1]) + name + b"\x021\0"
    return struct.pack(">i", len(head + body)) + head + body


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ValueError("the connection was closed")
        data += part
    return data


def _features(answer: bytes) -> dict[str, int]:
    """Returns feature -> its highest supported version."""
    reader = _Reader(answer)
    identity, error = reader.take(">ih")
    if identity != _API_VERSIONS.correlation or error:
        raise ValueError(f"error {error}")
    for _ in range(reader.count()):
        reader.take(">hhh")
        reader.skip_tags()
    reader.take(">i")
    features: dict[str, int] = {}
    for tag, data in reader.tags():
        if tag == 0:  # supported features
            inner = _Reader(data)
            for _ in range(inner.count()):
                name = inner.next(inner.count()).decode()
                _, features[name] = inner.take(">hh")
                inner.skip_tags()
    return features


class _Reader:
    """Reads Kafka's flexible encoding from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def next(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise ValueError("the answer ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.next(struct.calcsize(layout)))

    def number(self) -> int:
        """Returns a number of variable length."""
        value = shift = 0
        while True:
            (byte,) = self.next(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def count(self) -> int:
        """Returns a compact length; that of null is 0."""
        return max(0, self.number() - 1)

    def tags(self) -> list[tuple[int, bytes]]:
        return [(self.number(), self.next(self.number())) for _ in range(self.number())]

    def skip_tags(self) -> None:
        self.tags()
