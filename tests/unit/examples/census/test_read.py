"""Census files on their way in: which ones are meant, and what is refused because it is not complete."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from examples.census.files import URL, UnusableError, chosen, fetch, plan
from examples.census.read import FileRow, records_of
from examples.census.samples import MONTHS, write
from knative.errors import UsageError


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path, 2019, "jan", 35)


def read(path: Path, chunks_max: int | None = None) -> tuple[list[bytes], FileRow]:
    *records, row = records_of(2019, path.as_uri(), chunks_max)
    assert isinstance(row, FileRow)
    return [record[0] for record in records if not isinstance(record, FileRow)], row


def test_years_and_months_are_lists_or_an_error() -> None:
    assert chosen("--years", "2018, 2019,2018") == ["2018", "2019"]
    assert chosen("--months", "Jan,feb,jan") == ["jan", "feb"]
    assert chosen("--months", "*") == list(MONTHS)
    for years in ("", "19", "2019-2020", "x", "2019,", "-2019", "*"):
        with pytest.raises(UsageError, match="--years has"):
            chosen("--years", years)
    for months in ("", "january", "jan,,feb"):
        with pytest.raises(UsageError, match="--months has"):
            chosen("--months", months)


def test_which_files_are_meant() -> None:
    site = "https://www2.census.gov/programs-surveys/cps/datasets"
    assert plan("2018,2019", "jan", [], URL) == [
        (2018, f"{site}/2018/basic/jan18pub.dat.gz"), (2019, f"{site}/2019/basic/jan19pub.dat.gz"),
    ]  # fmt: skip
    assert plan("2019", "", ["/x/a b.gz", "/x/a b.gz"], URL) == [(2019, "file:///x/a%20b.gz")]
    with pytest.raises(UsageError, match="one year"):
        plan("2018,2019", "", ["a.gz"], URL)
    with pytest.raises(UsageError, match="--years and --months"):
        plan("2018", "", [], URL)
    for template in ("https://h/{day}", "https://h/{", "https://h/{0}"):
        with pytest.raises(UsageError, match="--url"):
            plan("2018", "jan", [], template)


def test_complete_file_gives_its_chunks_and_its_row(good: Path) -> None:
    keys, row = read(good)

    assert row == FileRow(good.as_uri(), 4, 35)
    assert len(set(keys)) == 4
    assert keys[-1].endswith(b"/3/last")
    assert read(good)[0] == keys
    assert read(good, 2) == (keys[:2], FileRow(good.as_uri(), 2, 20))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cut", "truncated"), ("cut at the end", "truncated"), ("bent", "damaged"), ("plain", "not a gzip"),
        ("empty", "empty"), ("missing", "No such file"), ("folder", "directory"),
    ],
)  # fmt: skip
def test_file_that_is_not_complete_gives_nothing(good: Path, tmp_path: Path, name: str, says: str) -> None:
    content = good.read_bytes()
    bent = bytearray(content)
    bent[len(bent) // 2] ^= 0xFF
    contents = {
        "cut": content[: len(content) // 2], "cut at the end": content[:-3], "bent": bytes(bent),
        "plain": b"x" * 1000, "empty": b"",
    }  # fmt: skip
    bad = tmp_path / f"{name}.gz"
    if name in contents:
        bad.write_bytes(contents[name])
    elif name == "folder":
        bad.mkdir()
    keys, row = read(bad)

    assert keys == []
    assert row.problem is not None
    assert says in row.problem
    assert (row.chunks, row.lines) == (0, 0)


def test_files_of_one_name_or_of_one_content_are_two(good: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.gz"
    renamed.write_bytes(good.read_bytes())
    other = tmp_path / "other" / good.name
    other.parent.mkdir()
    other.write_bytes(gzip.compress(b"x\n" * 35))

    assert len({key for path in (good, renamed, other) for key in read(path)[0]}) == 12


def test_file_without_lines_gives_a_row_only(tmp_path: Path) -> None:
    path = tmp_path / "none.gz"
    path.write_bytes(gzip.compress(b""))
    assert read(path) == ([], FileRow(path.as_uri()))


def test_identity_is_of_the_content(good: Path, tmp_path: Path) -> None:
    again = tmp_path / "again" / good.name
    again.parent.mkdir()
    again.write_bytes(gzip.compress(gzip.decompress(good.read_bytes()), 9))
    target = tmp_path / "target"
    assert fetch(2019, again.as_uri(), target) == fetch(2019, good.as_uri(), target)
    assert fetch(2018, again.as_uri(), target) != fetch(2019, good.as_uri(), target)
    with pytest.raises(UnusableError):
        fetch(2019, "", target)
