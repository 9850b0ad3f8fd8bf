"""Divides files into chunks of ten lines, and converts chunks from and to Kafka records. Pure.

    lines  0..9 | 10..19 | 20..22          three chunks; the last one may be short, and is marked as the last
    number    0 |      1 |      2

A chunk's id is its place: year, name and content of its file, and its number in it. Reading a file again, after a crash
or by mistake, gives the same ids, so that the totals count each id once. Does not drop or interpret lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from analytics.census.model import (
    CHUNK_LINES,
    CHUNKS_MAX,
    LAST_HEADER,
    NAME_CHARS_MAX,
    NAME_HEADER,
    YEAR_HEADER,
    YEARS,
    Place,
)

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Up to ten lines of one file, without line ends."""

    place: Place
    year: int
    name: str
    lines: tuple[bytes, ...]
    last: bool


class TooLongError(ValueError):
    """A file has more chunks than chunk numbers."""


def file_id(year: int, name: str, digest: str) -> str:
    """The identity of a file. `digest`: of its unpacked content."""
    text = f"{year}\n{name}\n{digest}".encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def cut(lines: Iterable[bytes], file: str, year: int, name: str) -> Iterator[Chunk]:
    """Chunks of all lines, in order. Raises TooLongError, and what `lines` raises."""
    rest = iter(lines)
    number, here = 0, tuple(islice(rest, CHUNK_LINES))
    while here:
        if number >= CHUNKS_MAX:
            raise TooLongError(f"{name} has more than {CHUNKS_MAX} chunks of {CHUNK_LINES} lines")
        after = tuple(islice(rest, CHUNK_LINES))
        yield Chunk(Place(file, number), year, name[:NAME_CHARS_MAX], here, not after)
        number, here = number + 1, after


def to_record(chunk: Chunk) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    """Key, value and headers of its record in the topic compute."""
    headers = [(YEAR_HEADER, str(chunk.year).encode()), (NAME_HEADER, chunk.name.encode("utf-8", "replace"))]
    if chunk.last:
        headers.append((LAST_HEADER, b"1"))
    return str(chunk.place).encode(), b"\n".join(chunk.lines), headers


def from_record(key: bytes | None, value: bytes | None, headers: Headers) -> Chunk:
    """Inverse of `to_record`. Raises ValueError with what is wrong."""
    if key is None or value is None:
        raise ValueError(f"it has no {'key' if key is None else 'value'}")
    found: Mapping[str, bytes | None] = dict(headers)
    year = (found.get(YEAR_HEADER) or b"").decode("ascii", "replace")
    if not (year.isascii() and year.isdigit() and len(year) == 4 and int(year) in YEARS):
        raise ValueError(f"its header {YEAR_HEADER} is not a valid year: {year[:20]!r}")
    lines = tuple(value.split(b"\n"))
    if len(lines) > CHUNK_LINES:
        raise ValueError(f"it has {len(lines)} lines; a chunk has at most {CHUNK_LINES}")
    name = (found.get(NAME_HEADER) or b"").decode("utf-8", "replace")[:NAME_CHARS_MAX]
    return Chunk(Place.parse(key.decode("ascii", "replace")), int(year), name, lines, LAST_HEADER in found)
