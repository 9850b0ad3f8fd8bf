"""The files that options select, and how a damaged one is described."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from analytics.census.generator import MONTHS
from analytics.census.sources import Source, damage, parse_months, parse_years, plan
from knative.errors import UsageError


def test_years_and_months() -> None:
    assert parse_years("2018, 2019,2018") == [2018, 2019]
    assert parse_months("Jan,feb,jan") == ["jan", "feb"]
    assert parse_months("*") == list(MONTHS)
    for wrong in ("", "19", "2019-2020", "x", "2019,", "-2019"):
        with pytest.raises(UsageError, match="not a valid year"):
            parse_years(wrong)
    for wrong in ("", "january", "jan,,feb"):
        with pytest.raises(UsageError, match="not a valid month"):
            parse_months(wrong)


def test_what_is_meant() -> None:
    template = "https://h/{year}/{month}{yy}pub.dat.gz"
    assert [one.url for one in plan([2018, 2019], ["jan"], [], template)] == [
        "https://h/2018/jan18pub.dat.gz", "https://h/2019/jan19pub.dat.gz",
    ]  # fmt: skip
    assert plan([2019], [], [Path("/x/a.gz")], template) == [Source(2019, "a.gz", path=Path("/x/a.gz"))]
    with pytest.raises(UsageError, match="one year"):
        plan([2018, 2019], [], [Path("a.gz")], template)
    with pytest.raises(UsageError, match="--years and --months"):
        plan([2018], [], [], template)


@pytest.mark.parametrize(
    ("problem", "unpacked", "says"),
    [
        (EOFError(), 40, "truncated: it ends after some 40 "),
        (OSError("Not a gzipped file (b'xx')"), 0, "not a gzip file"),
        (OSError("Not a gzipped file (b'xx')"), 7, "damaged, some 7 "),
        (zlib.error("incorrect data check"), 7, "(incorrect data check)"),
    ],
)
def test_a_damage_is_one_sentence(problem: Exception, unpacked: int, says: str) -> None:
    assert says in damage(problem, unpacked)
