"""Counting as a Spark Structured Streaming query: topic compute in, topic results out, as many tasks as partitions.

    Kafka source (offsets in the checkpoint) -> mapInArrow(count_record) -> Kafka sink (at least once)

After a kill, the query continues at its checkpoint and may write some results again, with the same chunk ids. If chunks
expire in Kafka before they are counted, the query fails: a total without them would be wrong without any sign of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.census.counting import count_record
from analytics.spark.kafka_source import StreamBounds, bootstrap, connection, stream_options
from knative.errors import SHOWN_CHARS, NotReadyError, PenstockError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CAUSE = re.compile(r"(?:[\w$]+\.)+[\w$]*(?:Exception|Error): [^\n]+")


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """`take`: gets the (key, value) records of each batch, instead of the results topic."""

    kafka: Mapping[str, Any]  #: librdkafka client settings
    compute_topic: str
    results_topic: str
    checkpoint: Path
    once: bool = False  #: end when everything that is there at the start is counted
    chunks_max: int = 20_000  #: in one batch: what is repeated after a kill
    delay_s: float = 0.0  #: a wait for each chunk, to make the demo visible
    every_s: float = 0.5  #: from the start of a batch to the start of the next
    take: Callable[[list[tuple[bytes, bytes]]], None] | None = None


def start(spark: SparkSession, config: SparkConfig) -> StreamingQuery:
    """Start the query. Raises what Spark raises."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")  # of 10 KiB each
    options = stream_options(config.kafka, [config.compute_topic], StreamBounds(config.chunks_max))
    options["failOnDataLoss"] = "true"
    chunks = spark.readStream.format("kafka").options(**dict[str, Any](options)).load()
    results = counted(chunks, config.delay_s)
    writer = results.writeStream.queryName("census").option("checkpointLocation", str(config.checkpoint.absolute()))
    writer = (
        writer.trigger(availableNow=True)
        if config.once
        else writer.trigger(processingTime=f"{int(config.every_s * 1000)} milliseconds")
    )
    if config.take is not None:
        return writer.foreachBatch(_handing_to(config.take)).start()
    sink = {
        **connection(config.kafka),
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "topic": config.results_topic,
    }
    return writer.format("kafka").options(**dict[str, Any](sink)).start()


def counted(chunks: DataFrame, delay_s: float = 0.0) -> DataFrame:
    """Columns key and value of results, one row for each record of the topic compute (with its headers)."""
    given = chunks.select("key", "value", "headers", "topic", "partition", "offset")
    return given.mapInArrow(_counter(delay_s), "key binary, value binary")


def _counter(delay_s: float) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            results = []
            for row in batch.to_pylist():
                headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
                where = f"{row['topic']}/{row['partition']}/{row['offset']}"
                results.append(count_record(row["key"], row["value"], headers, where))
                if delay_s:
                    time.sleep(delay_s)
            columns = [pyarrow.array([one[place] for one in results], pyarrow.binary()) for place in (0, 1)]
            yield pyarrow.RecordBatch.from_arrays(columns, ["key", "value"])

    return run


def _handing_to(take: Callable[[list[tuple[bytes, bytes]]], None]) -> Callable[[DataFrame, int], None]:
    def batch(results: DataFrame, _number: int) -> None:
        take([(bytes(row["key"]), bytes(row["value"])) for row in results.toLocalIterator()])

    return batch


def explained(problem: Exception, config: SparkConfig) -> PenstockError:
    """The error for a failed query, with a hint."""
    text = str(problem)
    topics = ", ".join(filter(None, (config.compute_topic, config.results_topic)))
    again = "What is computed again has the same chunk ids and counts once."
    if "data may have been missed" in text or "OffsetOutOfRange" in text or "data loss" in text.lower():
        return PenstockError(
            f"Kafka has removed chunks of {config.compute_topic} that were not computed yet; totals would be too low.",
            f"Read the files again, remove {config.checkpoint} and start again. {again}",
        )
    if "Multiple streaming jobs" in text or "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return PenstockError(
            f"Another compute uses the checkpoint {config.checkpoint}.",
            "Stop it, or give this one its own: --checkpoint DIR.",
        )
    if "UnknownTopicOrPartition" in text or "doesn't exist" in text or "does not host" in text:
        return PenstockError(f"A topic was removed while it was computed: {topics}.", "Start again.")
    if "TimeoutException" in text or "DisconnectException" in text:
        return NotReadyError(f"Kafka at {bootstrap(config.kafka)} stopped answering.", "Start again when it answers.")
    if isinstance(problem, ConnectionError) or "while sending or receiving" in text or "Java side is empty" in text:
        return PenstockError("Spark exited unexpectedly.", f"Start again. {again}")
    return PenstockError(
        f"Spark could not continue: {_gist(text) or type(problem).__name__}.",
        f"If the checkpoint is the cause, remove {config.checkpoint} and start again. {again}",
    )


def _gist(text: str) -> str:
    """The last cause in a chain of Java exceptions, otherwise the first line."""
    causes = [cause for cause in _CAUSE.findall(text) if "OriginalTryStackTraceException" not in cause]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return (causes[-1] if causes else first).strip()[:SHOWN_CHARS].rstrip(".")
