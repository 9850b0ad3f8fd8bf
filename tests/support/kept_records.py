"""A sink of census records that keeps them."""

from __future__ import annotations

from collections.abc import Sequence


class Kept:
    """Keeps what it is given, in order."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self.finished = False

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        self.records.append((key, value))

    def finish(self) -> None:
        self.finished = True
