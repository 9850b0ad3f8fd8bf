"""Errors of a query that counts, as sentences with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.census.spark import SparkConfig, explained
from knative.errors import NotReadyError, PenstockError

CONFIG = SparkConfig({"bootstrap.servers": "k:9092"}, "compute", "results", Path("/checkpoint"))


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("some data may have been missed", PenstockError, "removed chunks of compute that were not computed"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] ...", PenstockError, "Another compute uses the checkpoint /checkpoint"),
        ("UnknownTopicOrPartitionException", PenstockError, "compute, results"),
        ("java.util.concurrent.TimeoutException", NotReadyError, "Kafka at k:9092"),
        ("Answer from Java side is empty", PenstockError, "Spark exited"),
        ("b.OriginalTryStackTraceException: x\nCaused by: a.b.OneException: y.", PenstockError, "OneException: y"),
        ("", PenstockError, "could not continue: RuntimeError"),
    ],
)  # fmt: skip
def test_a_failed_query_is_explained(text: str, kind: type[PenstockError], says: str) -> None:
    found = explained(RuntimeError(text), CONFIG)

    assert type(found) is kind
    assert says in found.what


def test_without_a_results_topic_none_is_named() -> None:
    config = SparkConfig({"bootstrap.servers": "k:9092"}, "compute", "", Path("/checkpoint"))
    assert "computed: compute." in explained(RuntimeError("doesn't exist"), config).what
