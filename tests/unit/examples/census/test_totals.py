"""Totals of the census, and the pages that show them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from examples.census.model import CODES, count, cut, lines_of
from examples.census.samples import plain_count, write
from examples.census.totals import Totals, by_code, in_full, tally


def totals_of(results: Iterable[tuple[str, str]]) -> Totals:
    totals = Totals()
    for place, words in results:
        totals.add(place, words)
    return totals


A, B = f"2019/a.gz/{'a' * 16}", f"2018/b.gz/{'b' * 16}"


def test_totals_by_year_and_code() -> None:
    totals = totals_of([(f"{A}/0", "1,1,short"), (f"{A}/1/last", "1,5"), (f"{B}/0", "1,no_code")])
    page = in_full(totals, 5, 0)

    assert page["years"]["2019"] == {**dict.fromkeys(CODES, 0), "1": 3, "5": 1}
    assert page["years"]["2018"] == {**dict.fromkeys(CODES, 0), "1": 1}
    assert page["problems"] == {"short": 1, "no_code": 1, "out_of_range": 0}
    assert (page["lines"], page["chunks"], page["records"], page["complete"]) == (7, 3, 5, False)
    assert page["files"] == {B: {"chunks": 1, "chunks_in_all": None}, A: {"chunks": 2, "chunks_in_all": 2}}


def test_page_has_the_keys_of_kafka_scale() -> None:
    page = by_code(totals_of([(f"{A}/0/last", "1,1,12,short")]))

    assert page.keys() == {"2019"}
    assert list(page["2019"]) == [str(code) for code in range(13)]
    assert page["2019"]["1"] == {"Description": "HOUSE, APARTMENT, FLAT", "Count": 2}
    assert page["2019"]["0"] == {"Description": "OTHER UNIT", "Count": 0}


@pytest.mark.parametrize(
    ("places", "complete"),
    [
        ([f"{A}/0", f"{A}/1/last"], True),
        ([f"{A}/1/last", f"{A}/0"], True),
        ([f"{A}/1/last"], False),
        ([f"{A}/0"], False),
        ([f"{A}/0/last", f"{B}/0"], False),
        ([], False),
    ],
)
def test_complete_is_every_chunk_of_every_file(places: list[str], complete: bool) -> None:
    totals = totals_of((place, "1") for place in places)

    assert totals.complete is complete
    assert in_full(totals, 9, 0)["complete"] is complete
    assert in_full(totals, 9, 3)["complete"] is False


def test_chunk_by_chunk_is_as_a_plain_count(tmp_path: Path) -> None:
    files = [(year, write(tmp_path, year, month, 1_017, 0.1)) for year in (2018, 2019) for month in ("jan", "dec")]
    totals = Totals()
    for number, (year, path) in enumerate(files):
        with gzip.open(path) as stream:
            for place, lines in cut(lines_of(stream), f"{year}/x/{number:016x}"):
                totals.add(*count(place.encode(), b"\n".join(lines)))

    assert tally(totals.words()) == tally(plain_count(files))
    assert in_full(totals, 408, 0)["lines"] == 4 * 1_017
    assert totals.complete
