"""`read`: a Spark job with a task for each file, from its download to the records that Kafka has acknowledged.

    range(files) --mapInArrow: fetch, check, cut--> rows (key, value) --> topic, standard output, or nowhere

Spark's Kafka sink delivers at least once, and a read that was killed is started again from the beginning: the keys are
the places of the chunks, so what comes twice counts once. A file that cannot be used does not stop the others.
"""

from __future__ import annotations

import gzip
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.spark.kafka_source import connection
from examples.census.files import Source, UnusableError, fetch
from examples.census.model import cut, lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 50  #: chunks of 10 kB that go to the JVM together


@dataclass(frozen=True, slots=True)
class FileRow:
    """What became of one file. `problem` None = it was read."""

    url: str
    chunks: int = 0
    lines: int = 0
    problem: str | None = None


#: (number of the source, its row); a task that is repeated gives it again.
Report = list[tuple[int, FileRow]]


def send_modules(spark: SparkSession, folder: Path) -> None:
    """Executors may run where this example is not. They fetch the file in `folder` when their first task starts."""
    with zipfile.ZipFile(folder / "census.zip", "w") as archive:
        archive.writestr("examples/__init__.py", "")  # in a zip, Python 3.11 takes no folder for a package without it
        for path in Path(__file__).parent.glob("*.py"):
            archive.write(path, f"examples/census/{path.name}")
    spark.sparkContext.addPyFile(str(folder / "census.zip"))


def chunks(
    spark: SparkSession, sources: Sequence[Source], report: Report, chunks_max: int | None, delay_s: float
) -> DataFrame:
    """Returns columns key and value, a row for each chunk. `report` gets the row of each file when its task has ended.
    With `chunks_max` the files are read one by one. `delay_s`: a wait for each chunk, to make the demo visible."""
    from pyspark.accumulators import AddingAccumulatorParam

    adding: Any = AddingAccumulatorParam(list[Any]())
    total: Accumulator[Report] = spark.sparkContext.accumulator(report, adding)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        left = chunks_max
        for number in (row["id"] for batch in batches for row in batch.to_pylist()):
            if left == 0:
                return
            year, url = sources[int(number)]
            records = records_of(year, url, left, delay_s)
            while some := list(islice(records, _ROWS)):
                if isinstance(row := some[-1], FileRow):
                    total.add([(number, row)])
                    left = None if left is None else left - row.chunks
                pairs = [record for record in some if not isinstance(record, FileRow)]
                columns = [pyarrow.array([pair[at] for pair in pairs], pyarrow.binary()) for at in (0, 1)]
                yield pyarrow.RecordBatch.from_arrays(columns, ["key", "value"])

    tasks = len(sources) if chunks_max is None else 1
    return spark.range(0, len(sources), 1, tasks).mapInArrow(run, "key binary, value binary")


def write(rows: DataFrame, kafka: Mapping[str, Any], to: str, topic: str) -> None:
    """`to`: kafka, stdout or null. Returns when everything is stored. Raises what Spark raises."""
    if to == "kafka":
        safe: dict[str, Any] = {"kafka.acks": "all", "kafka.enable.idempotence": "true", "topic": topic}
        rows.write.format("kafka").options(**connection(kafka), **safe).save()
    elif to == "null":
        rows.write.format("noop").mode("append").save()
    else:
        for row in rows.toLocalIterator():
            print(row["key"].decode(), row["value"].decode("utf-8", "replace"), sep="\n", flush=True)


def records_of(
    year: int, url: str, chunks_max: int | None = None, delay_s: float = 0.0
) -> Iterator[tuple[bytes, bytes] | FileRow]:
    """Yields key and value of each chunk of a file, and its row at the end."""
    row = FileRow(url)
    with tempfile.TemporaryDirectory(prefix="penstock-census-") as folder:
        path = Path(folder) / "file.gz"
        try:
            file = fetch(year, url, path)
        except UnusableError as problem:
            yield replace(row, problem=str(problem))
            return
        with gzip.open(path) as stream:
            for place, lines in islice(cut(lines_of(stream), file), chunks_max):
                row = replace(row, chunks=row.chunks + 1, lines=row.lines + len(lines))
                yield place.encode(), b"\n".join(lines)
                time.sleep(delay_s)
    yield row
