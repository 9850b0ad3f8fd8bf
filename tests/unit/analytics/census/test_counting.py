"""The census core: lines, chunks, counting, and the records between the parts."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.census import chunks
from analytics.census.chunks import TooLongError, cut, file_id, from_record, to_record
from analytics.census.counting import count, count_record
from analytics.census.generator import Recipe, write
from analytics.census.lines import LINE_BYTES_MAX, code_of, lines_of
from analytics.census.model import CODES, Place, Problem, Refused, Result, decode, encode, key_of, url_problem
from analytics.census.plain import count_files, same

FILE = file_id(2019, "jan19pub.dat.gz", "d")
HEAD = b"0" * 30


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (HEAD + b" 1" + b"x" * 900, 1),
        (HEAD + b"1 ", 1),
        (HEAD + b"01", 1),
        (HEAD + b"12\r\n", 12),
        (HEAD + b" 0\n", 0),
        (HEAD + b"13", Problem.OUT_OF_RANGE),
        (HEAD + b"-1 and more", Problem.OUT_OF_RANGE),
        (HEAD + b"  and more", Problem.NO_CODE),
        (HEAD + b"x1", Problem.NO_CODE),
        (HEAD + b"1_", Problem.NO_CODE),
        (HEAD + "\u0661".encode(), Problem.NO_CODE),  # a digit, and not one of ours
        (HEAD + b"\xff\xfe", Problem.NO_CODE),
        (HEAD + b"1", Problem.SHORT),
        (HEAD + b"1\n", Problem.SHORT),
        (HEAD + b"1\r\n", Problem.SHORT),
        (HEAD + b"1\r\r\r\n", Problem.SHORT),
        (HEAD + b"1\r\r\rx", 1),
        (HEAD, Problem.SHORT),
        (b"", Problem.SHORT),
        (b"\n", Problem.SHORT),
    ],
)
def test_the_code_of_a_line(line: bytes, code: int | Problem) -> None:
    assert code_of(line) == code


@given(st.binary(min_size=32, max_size=40).filter(lambda line: b"\n" not in line and b"\r" not in line))
def test_a_number_is_what_python_says_it_is(line: bytes) -> None:
    try:
        number: int | None = int(line[30:32])
    except ValueError:
        number = None
    expected = Problem.NO_CODE if number is None else number if number in CODES else Problem.OUT_OF_RANGE

    assert code_of(line) == expected


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=60))
def test_no_line_is_lost_or_repeated(lines: list[bytes]) -> None:
    text = b"".join(line + b"\n" for line in lines)
    made = list(cut(lines_of(io.BytesIO(text)), FILE, 2019, "x"))

    assert [line for chunk in made for line in chunk.lines] == lines
    assert [chunk.place.number for chunk in made] == list(range(-(-len(lines) // 10)))
    assert [chunk.last for chunk in made] == [False] * (len(made) - 1) + [True] * bool(made)
    assert [from_record(*to_record(chunk)) for chunk in made] == made


@pytest.mark.parametrize(("count_of_lines", "sizes"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (29, [10, 10, 9])])
def test_the_last_short_chunk_is_kept(count_of_lines: int, sizes: list[int]) -> None:
    made = cut((b"x" for _ in range(count_of_lines)), FILE, 2019, "x")

    assert [len(chunk.lines) for chunk in made] == sizes


def test_an_endless_file_is_rejected_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNKS_MAX", 5)
    endless = iter(lambda: b"", None)
    with pytest.raises(TooLongError, match="more than 5 chunks"):
        list(cut(endless, FILE, 2019, "x"))


def test_enormous_lines_and_a_missing_last_line_end() -> None:
    long = HEAD + b" 5" + b"y" * (3 * LINE_BYTES_MAX)
    lines = list(lines_of(io.BytesIO(b"a\n" + long + b"\n" + b"\n" + b"end")))

    assert [len(line) for line in lines] == [1, LINE_BYTES_MAX, 0, 3]
    assert code_of(lines[1]) == 5


def test_the_identity_of_a_file() -> None:
    """Year, name and content; the same again is the same."""
    others = {file_id(2019, "a", "d"), file_id(2018, "a", "d"), file_id(2019, "b", "d"), file_id(2019, "a", "e")}

    assert len(others) == 4
    assert file_id(2019, "a", "d") in others


def _chunk(*lines: bytes) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    return to_record(next(cut(lines, FILE, 2019, "jan19pub.dat.gz")))


def test_counting_a_chunk() -> None:
    record = _chunk(HEAD + b" 1", HEAD + b" 1xyz", HEAD + b"12", b"", HEAD + b"99", HEAD + b"??")
    result = count(*record, where="compute/0/7")

    assert isinstance(result, Result)
    assert (result.place, result.year, result.name, result.lines) == (Place(FILE, 0), 2019, "jan19pub.dat.gz", 6)
    assert result.codes == {1: 2, 12: 1}
    assert result.problems == {Problem.SHORT: 1, Problem.OUT_OF_RANGE: 1, Problem.NO_CODE: 1}
    assert result.last
    assert decode(encode(result)) == result
    assert count_record(*record, where="elsewhere") == (key_of(result), encode(result))
    assert key_of(result) == record[0]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((None, b"x", [("year", b"2019")]), "no key"),
        ((f"{FILE}-0".encode(), None, [("year", b"2019")]), "no value"),
        ((b"junk", b"x", [("year", b"2019")]), "not a valid chunk id"),
        ((f"{FILE}-9999999".encode(), b"x", [("year", b"2019")]), "not a valid chunk id"),
        ((f"{FILE}-0".encode(), b"x", []), "not a valid year"),
        ((f"{FILE}-0".encode(), b"x", [("year", None)]), "not a valid year"),
        ((f"{FILE}-0".encode(), b"x", [("year", b"20x9")]), "not a valid year"),
        ((f"{FILE}-0".encode(), b"x", [("year", b"9999")]), "not a valid year"),
        ((f"{FILE}-0".encode(), b"\n" * 10, [("year", b"2019")]), "11 lines"),
    ],
)
def test_a_record_that_is_not_a_chunk_is_a_rejected_result(record: Any, why: str) -> None:
    key, value, headers = record
    result = count(key, value, headers, "compute/3/17")

    assert isinstance(result, Refused)
    assert result.where == "compute/3/17"
    assert why in result.why
    assert decode(encode(result)) == result


def _row(**changes: object) -> bytes:
    good = {
        "v": 1,
        "id": f"{FILE}-0",
        "year": 2019,
        "name": "a",
        "lines": 2,
        "codes": {"1": 1},
        "problems": {"short": 1},
    }
    return json.dumps({**good, **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"\xff", b"[]", b"7", b"{}", b"[" * 100_000, _row(v=2), _row(id="x"), _row(id=f"{FILE}-99999999"),
        _row(year="2019"), _row(year=1), _row(lines=-1), _row(lines=True), _row(lines=3), _row(lines=11),
        _row(codes={"13": 1}), _row(codes={"x": 1}), _row(codes=[1]), _row(codes={"1": 0.5}), _row(problems={"odd": 1}),
        _row(lines=0, codes={}, problems={}),
    ],
)  # fmt: skip
def test_junk_in_the_results_topic_is_rejected(value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(value)


def test_a_good_row_is_read() -> None:
    assert decode(_row()) == Result(Place(FILE, 0), 2019, "a", 2, {1: 1}, {Problem.SHORT: 1})


def test_the_generator_makes_what_it_says(tmp_path: Path) -> None:
    recipe = Recipe(lines=3_003, seed=4, short_share=0.02, out_of_range_share=0.02, no_code_share=0.02)
    made = write(tmp_path / "a", 2019, "feb", recipe)
    again = write(tmp_path / "b", 2019, "feb", recipe)

    assert made.path.name == "feb19pub.dat.gz"
    assert made.path.read_bytes() == again.path.read_bytes()
    assert made.path.read_bytes() != write(tmp_path / "c", 2019, "feb", Recipe(3_003, 5)).path.read_bytes()
    with gzip.open(made.path) as lines:
        found = Counter(code_of(line) for line in lines_of(lines))
    assert found == made.kinds
    assert found.keys() == {*CODES, *Problem}
    assert list((tmp_path / "a" / "2019").iterdir()) == [made.path]


@given(
    st.lists(
        (st.binary(max_size=4) | st.sampled_from([b"1", b"1\r\r\r", b"\r1"])).map(lambda end: HEAD + end), max_size=9
    )
)
def test_the_plain_count_agrees_on_any_line(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "any-lines.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    plain = count_files([(2019, path)])
    with gzip.open(path) as stream:
        found = Counter(code_of(line) for line in lines_of(stream))
    assert found == Counter(plain.years[2019]) + Counter(plain.problems)


def test_the_plain_count_agrees_with_chunk_by_chunk(tmp_path: Path) -> None:
    recipe = Recipe(1_017, 1, 0.05, 0.05, 0.05)
    files = [(year, write(tmp_path, year, month, recipe).path) for year in (2018, 2019) for month in ("jan", "dec")]
    plain = count_files(files)
    years: dict[int, Counter[int]] = {2018: Counter(), 2019: Counter()}
    problems: Counter[str] = Counter()
    for year, path in files:
        with gzip.open(path) as stream:
            for chunk in cut(lines_of(stream), FILE, year, path.name):
                result = count(*to_record(chunk), where="")
                assert isinstance(result, Result)
                years[result.year].update(result.codes)
                problems.update(result.problems)

    assert same(plain.years, years)
    assert plain.problems == problems
    assert plain.lines == 4 * 1_017
    assert not same(plain.years, {**years, 2018: years[2018] + Counter({12: 1})})


@pytest.mark.parametrize(
    ("template", "good"),
    [
        ("https://h/{year}/{month}{yy}.gz", True),
        ("http://h/all.gz", True),
        ("ftp://h/{year}", False),
        ("https://h/{day}", False),
        ("https://h/{", False),
        ("https://h/{0}", False),
        ("https://h/{year.real.x}", False),
        ("", False),
    ],
)
def test_where_files_are_fetched(template: str, good: bool) -> None:
    assert (url_problem(template) is None) is good
