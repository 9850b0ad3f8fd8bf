"""The census is read by Spark: to a topic, to standard output, to nowhere, with a limit, beside a damaged file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.local.kafka import EmbeddedKafka
from examples.census import read
from examples.census.model import count
from examples.census.samples import plain_count, write
from examples.census.totals import Totals
from tables.kafka.topic_reader import TopicReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


class Reader:
    """Reads files of 2019 in the session of the tests."""

    def __init__(self, spark: SparkSession, kafka: EmbeddedKafka) -> None:
        self.client = {"bootstrap.servers": kafka.bootstrap}
        self._spark = spark

    def read(
        self, paths: Sequence[Path], to: str, topic: str = "", chunks_max: int | None = None
    ) -> list[read.FileRow]:
        sources = [(2019, path.as_uri()) for path in paths]
        report: read.Report = []
        read.write(read.chunks(self._spark, sources, report, chunks_max, 0.0), self.client, to, topic)
        return [row for _, row in sorted(report)]


@pytest.fixture(scope="module")
def reader(spark: SparkSession, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    read.send_modules(spark, tmp_path_factory.mktemp("modules"))
    return Reader(spark, kafka)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """One of 101 chunks, one that is truncated, and one of 3 chunks."""
    first, bad, second = (write(tmp_path, 2019, month, lines, 0.03) for month, lines in _FILES.items())
    bad.write_bytes(bad.read_bytes()[:200])
    return [first, bad, second]


_FILES = {"jan": 1_003, "feb": 50, "mar": 27}


def test_all_files_that_are_complete_get_into_the_topic(
    reader: Reader, files: list[Path], make_topic: Callable[..., str]
) -> None:
    """Again as well: the same places."""
    topic, totals, keys = make_topic(2), Totals(), list[bytes | None]()
    for _ in range(2):
        rows = reader.read(files, "kafka", topic)
        assert [(row.chunks, row.lines) for row in rows] == [(101, 1_003), (0, 0), (3, 27)]
        assert [row.problem is None for row in rows] == [True, False, True]
    with TopicReader(topic, reader.client) as records:
        for record in records.stored():
            if record.key not in keys:
                totals.add(*count(record.key, record.value))
            keys.append(record.key)
    assert (len(keys), len(set(keys))) == (208, 104)
    assert totals.words() == plain_count([(2019, files[0]), (2019, files[2])])
    assert totals.complete


def test_limit_counts_over_all_files(reader: Reader, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    rows = reader.read([files[2], files[1], files[0]], "stdout", chunks_max=5)
    assert [(row.chunks, row.lines, row.problem is None) for row in rows] == [
        (3, 27, True),
        (0, 0, False),
        (2, 20, True),
    ]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5 + 27 + 20
    assert printed[0].startswith("2019/mar19pub.dat.gz/")
    assert printed[-11].endswith("/1")
    assert [row.chunks for row in reader.read(files, "null", chunks_max=101)] == [101]
    assert reader.read(files, "null", chunks_max=0) == []


def test_read_to_nowhere_counts_all_chunks(reader: Reader, files: list[Path]) -> None:
    assert sum(row.chunks for row in reader.read(files, "null")) == 104
