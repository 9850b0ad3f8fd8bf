"""Lines, chunks and results, and the records that they are in Kafka. Pure.

    topic compute    key  2019/jan19pub.dat.gz/<digest>/17         value  ten lines
    topic results    the same key                                   value  1,1,5,short,...: a word for each line

The key is the place of a chunk: year, name and content of its file, and its number there; `/last` follows on the last
one. A file that is read again, or a chunk that is counted again, gives the same records, so each place counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from gzip import GzipFile
from itertools import islice

#: Housing unit codes (HEHOUSUT), with the descriptions of the census documentation.
CODES: Mapping[str, str] = {
    "0": "OTHER UNIT",
    "1": "HOUSE, APARTMENT, FLAT",
    "2": "HU IN NONTRANSIENT HOTEL, MOTEL, ETC.",
    "3": "HU PERMANENT IN TRANSIENT HOTEL, MOTEL",
    "4": "HU IN ROOMING HOUSE",
    "5": "MOBILE HOME OR TRAILER W/NO PERM. ROOM ADDED",
    "6": "MOBILE HOME OR TRAILER W/1 OR MORE PERM. ROOMS ADDED",
    "7": "HU NOT SPECIFIED ABOVE",
    "8": "QUARTERS NOT HU IN ROOMING OR BRDING HS",
    "9": "UNIT NOT PERM. IN TRANSIENT HOTL, MOTL",
    "10": "UNOCCUPIED TENT SITE OR TRLR SITE",
    "11": "STUDENT QUARTERS IN COLLEGE DORM",
    "12": "OTHER UNIT NOT SPECIFIED ABOVE",
}
#: Why a line has no code: it ends too early, its columns hold no number, or a number that is not one of the codes.
SHORT, NO_CODE, OUT_OF_RANGE = PROBLEMS = ("short", "no_code", "out_of_range")
WORDS = frozenset((*CODES, *PROBLEMS))

CHUNK_LINES = 10
CODE_FROM, CODE_TO = 30, 32  #: the columns of the code, padded with a blank
LINE_BYTES_MAX = 65_536  #: how much of a line is kept; the code is before that
YEARS = range(1900, 2101)

_PLACE = re.compile(r"((\d{4})/[^/]{1,255}/[0-9a-f]{16})/(\d{1,9})(/last)?", re.ASCII)


def parse_place(text: str) -> tuple[str, int, bool]:
    """Returns the identity of the file, number of the chunk, and whether it is the last one. Raises ValueError."""
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) not in YEARS:
        raise ValueError(f"{text[:80]!r} is not a valid place of a chunk")
    return match[1], int(match[3]), match[4] is not None


def lines_of(stream: GzipFile) -> Iterator[bytes]:
    """Yields lines without their ends, of longer ones the first LINE_BYTES_MAX bytes. Raises what the stream raises."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        yield line[:-1] if line.endswith(b"\n") else line[:LINE_BYTES_MAX]
        while line and not line.endswith(b"\n"):  # skip the rest of it
            line = stream.readline(LINE_BYTES_MAX + 1)


def cut(lines: Iterable[bytes], file: str) -> Iterator[tuple[str, list[bytes]]]:
    """Yields place and lines of each chunk of a file, in order. Raises what `lines` raises."""
    rest = iter(lines)
    number, chunk = 0, list(islice(rest, CHUNK_LINES))
    while chunk:
        following = list(islice(rest, CHUNK_LINES))
        yield f"{file}/{number}{'' if following else '/last'}", chunk
        number, chunk = number + 1, following


def word_of(line: bytes) -> str:
    """Returns the code of a line, or why it has none. The line may include its end."""
    if len(line.rstrip(b"\r\n")) < CODE_TO:
        return SHORT
    try:
        code = str(int(line[CODE_FROM:CODE_TO]))
    except ValueError:
        return NO_CODE
    return code if code in CODES else OUT_OF_RANGE


def count(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Returns place and words of a record of the topic compute. Raises ValueError if it is not a chunk."""
    lines = [] if value is None else value.split(b"\n")
    return result_of(key, ",".join(sorted(map(word_of, lines))).encode())


def result_of(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Returns place and words of a record of the topic results. Raises ValueError if it is not a result."""
    place, words = (key or b"").decode("ascii", "replace"), (value or b"").decode("ascii", "replace").split(",")
    parse_place(place)
    if not WORDS.issuperset(words) or len(words) > CHUNK_LINES:
        raise ValueError(f"a chunk has 1 to {CHUNK_LINES} lines, each with a known word")
    return place, ",".join(words)
