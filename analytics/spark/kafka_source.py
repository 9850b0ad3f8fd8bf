"""Kafka as a Spark source: options of bounded reads, and the columns of Penstock's records.

    records = read_batch(spark, kafka, topics, since_s, until_s)      by time
    records = read_ranges(spark, kafka, {"topic": {0: (5, 900)}})     by offsets
    records.select(header("ce_type"), header("ce_source"), body_bytes(), second())

Columns: key, value, topic, partition, offset, timestamp, timestampType, headers. Spark transfers only the columns that
are selected. If you do not need bodies, select headers and `length(value)`, never `value`.

Reads do not fail when records are gone: lost offsets are skipped (`failOnDataLoss=false`), and a partition without a
record at or after `since` starts at its end. `until` ends each partition at the first record at or after that time.
Timestamps in a partition may go back a little, so a caller that needs an exact bound also filters by `timestamp`.

Stable for other jobs: `read_batch`, `read_ranges`, `header`, `body_bytes`, `second`. Joins no
consumer group and does not commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knative.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SECURITY = "org.apache.kafka.common.security"
_REQUEST_MS = 15_000  #: for one request to Kafka; the default of a minute is too long at a terminal


def bootstrap(kafka: Mapping[str, Any]) -> str:
    """Returns the brokers' addresses in librdkafka's settings."""
    return str(kafka["bootstrap.servers"])


def connection(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Returns options by which Spark connects as librdkafka does with `kafka`. Certificates are read here, because
    executors may run where these files are not. Raises UsageError for a mechanism that Spark cannot use."""
    protocol = str(kafka.get("security.protocol", "PLAINTEXT"))
    options = {"bootstrap.servers": bootstrap(kafka)}
    if protocol != "PLAINTEXT":
        options["security.protocol"] = protocol
    if "ssl.ca.location" in kafka:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = Path(kafka["ssl.ca.location"]).read_text()
    if "ssl.certificate.location" in kafka:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = Path(kafka["ssl.certificate.location"]).read_text()
        options["ssl.keystore.key"] = Path(kafka["ssl.key.location"]).read_text()
    if protocol.startswith("SASL"):
        options |= _sasl(kafka)
    return {f"kafka.{name}": value for name, value in options.items()}


def _sasl(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Returns settings of the Java client."""
    mechanism = str(kafka["sasl.mechanism"])
    if mechanism == "OAUTHBEARER":  # the Java client takes tokens only from URLs in a property of its JVM
        raise UsageError(
            "Spark does not connect to Kafka with OAUTHBEARER.",
            "Give the job a Kafka secret with SCRAM, PLAIN or mTLS.",
        )
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user, password = (_quoted(str(kafka[name])) for name in ("sasl.username", "sasl.password"))
    login = f"{_SECURITY}.{module} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    """Returns the text as a quoted value of a JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def kafka_options(kafka: Mapping[str, Any], topics: Sequence[str]) -> dict[str, str]:
    """Returns the options of every read."""
    return {
        **connection(kafka),
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        "failOnDataLoss": "false",
        "startingOffsetsByTimestampStrategy": "latest",
        "kafka.request.timeout.ms": str(_REQUEST_MS),
        "kafka.default.api.timeout.ms": str(2 * _REQUEST_MS),
        "kafka.max.poll.records": "5000",
        "kafka.allow.auto.create.topics": "false",  # reading a removed topic must not bring it back
        "kafka.max.partition.fetch.bytes": "4194304",
        "fetchOffset.numRetries": "2",
        "kafkaConsumer.pollTimeoutMs": str(2 * _REQUEST_MS),  # then a query without Kafka fails
    }


def batch_options(
    kafka: Mapping[str, Any], topics: Sequence[str], since_s: float | None = None, until_s: float | None = None
) -> dict[str, str]:
    """Returns options for `spark.read`: Unix seconds, `since_s` (included) to `until_s` (excluded); None = no bound."""
    options = kafka_options(kafka, topics)
    if since_s is None:
        options["startingOffsets"] = "earliest"
    else:
        options["startingTimestamp"] = str(int(since_s * 1000))
    if until_s is None:
        options["endingOffsets"] = "latest"
    else:
        options["endingTimestamp"] = str(int(until_s * 1000))
    return options


def read_batch(
    spark: SparkSession,
    kafka: Mapping[str, Any],
    topics: Sequence[str],
    since_s: float | None = None,
    until_s: float | None = None,
) -> DataFrame:
    """Returns the records of these topics between two times (Unix seconds; the module says how exact that is)."""
    options = batch_options(kafka, topics, since_s, until_s)
    return spark.read.format("kafka").options(**_options(options)).load()


def read_ranges(
    spark: SparkSession, kafka: Mapping[str, Any], ranges: Mapping[str, Mapping[int, tuple[int, int]]]
) -> DataFrame:
    """Returns the records at these offsets: topic -> partition -> first offset, and the one after the last."""
    options = kafka_options(kafka, [])
    del options["subscribe"]
    options["assign"] = json.dumps({topic: list(places) for topic, places in ranges.items()})
    for name, place in (("startingOffsets", 0), ("endingOffsets", 1)):
        offsets = {topic: {number: at[place] for number, at in places.items()} for topic, places in ranges.items()}
        options[name] = json.dumps(offsets)
    return spark.read.format("kafka").options(**_options(options)).load()


def header(name: str) -> Column:
    """Returns the value of a record header as text, the first one of that name; null where there is none."""
    from pyspark.sql import functions as f

    place = f.array_position("headers.key", name) - 1
    return f.get("headers.value", place.cast("int")).cast("string")


def body_bytes() -> Column:
    """Returns the length of the record's value; 0 for a tombstone."""
    from pyspark.sql import functions as f

    return f.coalesce(f.length("value"), f.lit(0)).cast("long")


def second() -> Column:
    """Returns the Unix second of the record's timestamp."""
    from pyspark.sql import functions as f

    return f.unix_seconds("timestamp")


def _options(options: Mapping[str, str]) -> dict[str, str | float | int | bool | None]:
    return dict(options)
