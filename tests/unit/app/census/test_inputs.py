"""Census files on their way in: what is fetched, and what is refused because it is not whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analytics.census.generator import Recipe, write
from analytics.census.sources import Source
from app.census.checkpoint import spark_places
from app.census.inputs import UnusableError, digest
from app.census.reader import FileRow, ReadConfig, read_all
from app.cli import cli
from knative.errors import PenstockError
from tests.support.kept_records import Kept


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path, 2019, "jan", Recipe(35)).path


def _read(*paths: Path, chunks: int | None = None) -> tuple[list[FileRow], Kept]:
    sink = Kept()
    rows = read_all([Source(2019, path.name, path=path) for path in paths], sink, ReadConfig(chunks))
    assert sink.finished
    return rows, sink


def test_a_whole_file(whole: Path) -> None:
    rows, sink = _read(whole)

    assert rows == [FileRow("jan19pub.dat.gz", 2019, str(whole), 4, 35, "", True)]
    assert len({key for key, _ in sink.records}) == 4
    assert _read(whole)[1].records == sink.records


def test_no_more_chunks_than_asked_for(whole: Path, tmp_path: Path) -> None:
    other = write(tmp_path, 2019, "feb", Recipe(35)).path
    rows, sink = _read(whole, other, chunks=2)
    assert [(row.chunks, row.whole, row.problem) for row in rows] == [(2, False, "")]
    assert len(sink.records) == 2
    assert [row.chunks for row in _read(whole, other, chunks=5)[0]] == [4, 1]
    assert _read(whole, chunks=0)[0] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cut", "truncated"), ("cut at the end", "truncated"), ("bent", "damaged"), ("plain", "not a gzip"),
        ("empty", "empty"), ("missing", "no such file"), ("folder", "no such file"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_whole_gives_nothing(whole: Path, tmp_path: Path, name: str, says: str) -> None:
    content = whole.read_bytes()
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
    rows, sink = _read(bad, whole)

    assert says in rows[0].problem
    assert (rows[0].chunks, rows[1].chunks) == (0, 4)
    assert len(sink.records) == 4


def test_the_same_file_named_twice(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / whole.name
    copy.parent.mkdir()
    copy.write_bytes(whole.read_bytes())
    rows, sink = _read(whole, copy)

    assert "counts once" in rows[1].problem
    assert len(sink.records) == 4


def test_files_of_one_name_or_of_one_content_are_two(whole: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.gz"
    renamed.write_bytes(whole.read_bytes())
    other = tmp_path / "other" / whole.name
    other.parent.mkdir()
    with gzip.open(other, "wb") as file:
        file.write(b"x\n" * 35)

    assert len({key for key, _ in _read(whole, renamed, other)[1].records}) == 12


def test_a_file_without_lines(tmp_path: Path) -> None:
    none = tmp_path / "none.gz"
    none.write_bytes(gzip.compress(b""))
    rows, sink = _read(none)
    assert (rows[0].problem, rows[0].whole, sink.records) == ("", True, [])


def test_digest_is_of_the_content(whole: Path, tmp_path: Path) -> None:
    packed_otherwise = tmp_path / "again.gz"
    packed_otherwise.write_bytes(gzip.compress(gzip.decompress(whole.read_bytes()), 9))
    assert digest(packed_otherwise) == digest(whole)
    with pytest.raises(UnusableError):
        digest(tmp_path / "again")


def test_how_far_a_checkpoint_is(tmp_path: Path) -> None:
    assert spark_places(tmp_path, "compute") is None
    for name in ("commits", "offsets"):
        (tmp_path / name).mkdir()
    assert spark_places(tmp_path, "compute") is None
    (tmp_path / "commits" / "9").touch()
    (tmp_path / "commits" / "10").touch()
    (tmp_path / "commits" / ".10.crc").touch()
    (tmp_path / "offsets" / "10").write_text('v1\n{"batchWatermarkMs":0}\n{"compute":{"1":7,"0":5}}')
    assert spark_places(tmp_path, "compute") == {0: 5, 1: 7}
    assert spark_places(tmp_path, "other") is None
    (tmp_path / "offsets" / "10").write_text("\x00")
    assert spark_places(tmp_path, "compute") is None


def _census(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, ["census", *arguments])
    said = str(done.exception) if isinstance(done.exception, PenstockError) else done.stderr
    code = done.exception.exit_code if isinstance(done.exception, PenstockError) else done.exit_code
    return code, done.stdout, said


def test_generate_and_read_without_kafka(tmp_path: Path) -> None:
    """As a user does it: made, read, shown."""
    made = ("generate", "--years", "2019", "--months", "jan", "--lines", "23", "--output-dir", str(tmp_path))
    code, out, _ = _census(*made, "-o", "json")
    assert (code, [row["lines"] for row in json.loads(out)]) == (0, [23])
    assert _census(*made)[0] == 2  # it is there already
    assert _census(*made, "--force", "--short", "0.1")[0] == 0
    file = str(tmp_path / "2019" / "jan19pub.dat.gz")
    code, out, said = _census("read", "--years", "2019", "--from-file", file, "--write-to", "stdout", "--chunks", "1")
    assert (code, said) == (0, "")
    (chunk,) = [json.loads(line) for line in out.splitlines()]
    assert (chunk["year"], chunk["file"], len(chunk["lines"])) == ("2019", "jan19pub.dat.gz", 10)
    code, out, _ = _census("read", "--years", "2019", "--from-file", file, "--write-to", "null", "-o", "json")
    assert (code, json.loads(out)["lines"]) == (0, 23)
    missing = str(tmp_path / "none.gz")
    assert _census("read", "--years", "2019", "--from-file", missing, "--write-to", "null")[0] == 1
    assert _census("read", "--years", "2019", "--from-file", missing, "--from-file", file, "--write-to", "null")[0] == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["read"], "--years and --months"),
        (["read", "--years", "x"], "not a valid year"),
        (["read", "--years", "2019", "--months", "mai"], "not a valid month"),
        (["read", "--from-file", "a.gz"], "one year"),
        (["generate", "--short", "0.9", "--no-code", "0.9"], "add up"),
        (["compute", "--engine", "faust", "--once"], "--engine spark"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    code, _, said = _census(*arguments)
    assert code == 2
    assert says in said


@pytest.mark.parametrize("command", ["read --years 2019 --months jan", "compute", "results"])
def test_a_dry_run_makes_no_request(command: str) -> None:
    code, out, _ = _census(*command.split(), "--dry-run", "--kafka", "127.0.0.1:1")
    assert code == 0
    assert out.startswith("Would run with:")
    assert "127.0.0.1:1" in out
