"""Spark reads from a Kafka with TLS and SASL, by the settings of a Kafka secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from analytics.spark.kafka_source import read_batch
from tables.kafka.connection.secret import read_secret
from tests.support.secured_kafka import PLAIN_PASSWORD, PLAIN_USER, SecuredKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

RECORDS = 20
LIMIT_S = 180.0
TOPIC = "read-by-spark"
Connect = Callable[[SecuredKafka, Path], tuple[str, Path]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as kafka:
        kafka.set_password("ann", "secret")
        kafka.create_topic(TOPIC)
        producer = Producer({"bootstrap.servers": kafka.direct})
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"x")
        assert producer.flush(LIMIT_S) == 0
        yield kafka


def _plain(kafka: SecuredKafka, folder: Path) -> tuple[str, Path]:
    return kafka.sasl, kafka.sasl_secret(folder, "PLAIN", PLAIN_USER, PLAIN_PASSWORD)


def _scram(kafka: SecuredKafka, folder: Path) -> tuple[str, Path]:
    return kafka.sasl, kafka.sasl_secret(folder, "SCRAM-SHA-512", "ann", "secret")


def _mtls(kafka: SecuredKafka, folder: Path) -> tuple[str, Path]:
    return kafka.mtls, kafka.mtls_secret(folder)


@pytest.mark.parametrize("connect", [_plain, _scram, _mtls])
def test_spark_reads_with_a_secret(
    spark: SparkSession, secured: SecuredKafka, tmp_path: Path, connect: Connect
) -> None:
    bootstrap, folder = connect(secured, tmp_path / "secret")
    client = {"bootstrap.servers": bootstrap, **read_secret(folder)}
    assert read_batch(spark, client, [TOPIC]).count() == RECORDS
