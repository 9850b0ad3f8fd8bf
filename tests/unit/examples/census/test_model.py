"""Lines, chunks and results, and the files that are made for tests and demos."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.census.model import (
    LINE_BYTES_MAX,
    NO_CODE,
    OUT_OF_RANGE,
    SHORT,
    WORDS,
    count,
    cut,
    lines_of,
    parse_place,
    result_of,
    word_of,
)
from examples.census.samples import plain_count, write

FILE = f"2019/jan19pub.dat.gz/{'a' * 16}"
HEAD = b"0" * 30


def stream_of(content: bytes) -> Any:
    return io.BytesIO(content)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (HEAD + b" 1" + b"x" * 900, "1"),
        (HEAD + b"1 ", "1"),
        (HEAD + b"01", "1"),
        (HEAD + b"12\r\n", "12"),
        (HEAD + b" 0\n", "0"),
        (HEAD + b"13", OUT_OF_RANGE),
        (HEAD + b"-1 and more", OUT_OF_RANGE),
        (HEAD + b"  and more", NO_CODE),
        (HEAD + b"x1", NO_CODE),
        (HEAD + b"1_", NO_CODE),
        (HEAD + "\u0661".encode(), NO_CODE),  # a digit, and not one of ours
        (HEAD + b"\xff\xfe", NO_CODE),
        (HEAD + b"1", SHORT),
        (HEAD + b"1\n", SHORT),
        (HEAD + b"1\r\n", SHORT),
        (HEAD + b"1\r\r\r\n", SHORT),
        (HEAD + b"1\r\r\rx", "1"),
        (HEAD, SHORT),
        (b"", SHORT),
        (b"\n", SHORT),
    ],
)
def test_word_of_a_line(line: bytes, word: str) -> None:
    assert word_of(line) == word


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=60))
def test_no_line_is_lost_or_repeated(lines: list[bytes]) -> None:
    text = b"".join(line + b"\n" for line in lines)
    chunks = list(cut(lines_of(stream_of(text)), FILE))

    assert [line for _, chunk in chunks for line in chunk] == lines
    places = [parse_place(place) for place, _ in chunks]
    assert places == [(FILE, number, number == len(chunks) - 1) for number in range(-(-len(lines) // 10))]


@pytest.mark.parametrize(("lines", "sizes"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (29, [10, 10, 9])])
def test_last_short_chunk_is_kept(lines: int, sizes: list[int]) -> None:
    assert [len(chunk) for _, chunk in cut((b"x" for _ in range(lines)), FILE)] == sizes


def test_enormous_lines_and_a_missing_last_line_end() -> None:
    long = HEAD + b" 5" + b"y" * (3 * LINE_BYTES_MAX)
    lines = list(lines_of(stream_of(b"a\n" + long + b"\n" + b"\n" + b"end")))

    assert [len(line) for line in lines] == [1, LINE_BYTES_MAX, 0, 3]
    assert word_of(lines[1]) == "5"


def test_chunk_is_counted_by_code() -> None:
    lines = [HEAD + b" 1", HEAD + b" 1xyz", HEAD + b"12", b"", HEAD + b"99", HEAD + b"??"]
    ((place, chunk),) = cut(lines, FILE)
    result = count(place.encode(), b"\n".join(chunk))

    assert result == (f"{FILE}/0/last", "1,1,12,no_code,out_of_range,short")
    assert result_of(result[0].encode(), result[1].encode()) == result


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (f"{FILE}/0".encode(), None),
        (b"junk", b"x"),
        (b"\xff", b"x"),
        (f"{FILE}/9999999999".encode(), b"x"),
        (f"{FILE}/-1".encode(), b"x"),
        (f"{FILE}/0/lost".encode(), b"x"),
        (f"20x9{FILE[4:]}/0".encode(), b"x"),
        (f"9999{FILE[4:]}/0".encode(), b"x"),
        (f"{FILE}/0".encode(), b"\n" * 10),
    ],
)
def test_record_that_is_not_a_chunk_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        count(key, value)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"1,,2", b"13", b"-1", b"01", b"odd", b",".join([b"1"] * 11)])
def test_junk_in_the_results_topic_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        result_of(f"{FILE}/0".encode(), value)


def test_made_files_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 2019, "feb", 3_003, 0.1, seed=4)

    assert path.name == "feb19pub.dat.gz"
    assert path.read_bytes() == write(tmp_path / "b", 2019, "feb", 3_003, 0.1, seed=4).read_bytes()
    assert path.read_bytes() != write(tmp_path / "c", 2019, "feb", 3_003, 0.1, seed=5).read_bytes()
    with gzip.open(path) as stream:
        words = Counter(word_of(line) for line in lines_of(stream))
    assert words.keys() == WORDS
    assert words.total() == 3_003


ENDS = st.binary(max_size=4) | st.sampled_from([b"1", b"1\r\r\r", b"\r1", b"+1", b"-1", b"-0", b"+-", b"\x1c1"])


@given(st.lists(ENDS.map(lambda end: HEAD + end), max_size=9))
def test_plain_count_agrees_on_any_line(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "any-lines.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    with gzip.open(path) as stream:
        assert plain_count([(2019, path)]) == {2019: Counter(word_of(line) for line in lines_of(stream))}
