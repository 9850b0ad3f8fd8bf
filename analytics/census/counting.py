"""Turns a record of the topic compute into its result: the one function that both Spark and Faust run. Pure.

The same record gives the same result, byte for byte, however often and wherever it is counted. A record that is not a
valid chunk gives a result that says so: an exception would stop the engine at this record again and again.
"""

from __future__ import annotations

from collections import Counter

from analytics.census.chunks import Headers, from_record
from analytics.census.lines import code_of
from analytics.census.model import CODES, Problem, Refused, Result, encode, key_of


def count(key: bytes | None, value: bytes | None, headers: Headers, where: str) -> Result | Refused:
    """`where`: TOPIC/PARTITION/OFFSET of the record."""
    try:
        chunk = from_record(key, value, headers)
    except ValueError as problem:
        return Refused(where, str(problem))
    found = Counter(code_of(line) for line in chunk.lines)
    return Result(
        chunk.place,
        chunk.year,
        chunk.name,
        len(chunk.lines),
        {code: found[code] for code in CODES if found[code]},
        {problem: found[problem] for problem in Problem if found[problem]},
        chunk.last,
    )


def count_record(key: bytes | None, value: bytes | None, headers: Headers, where: str) -> tuple[bytes, bytes]:
    """Key and value of the record for the topic results."""
    result = count(key, value, headers, where)
    return key_of(result), encode(result)
