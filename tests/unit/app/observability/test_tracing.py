"""Where spans are sent, and until when."""

from __future__ import annotations

import time

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.observability.span_export import ExportConfig, Exporter


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("https://h/otlp", "https://h/otlp/v1/traces"),
        ("https://h/otlp/v1/traces", "https://h/otlp/v1/traces"),
    ],
)
def test_path_is_added_where_it_is_missing(endpoint: str, url: str) -> None:
    assert ExportConfig(endpoint).url == url


def test_after_its_end_nothing_is_sent() -> None:
    exporter = Exporter(InMemorySpanExporter(), "http://h/v1/traces")
    exporter.stop_at(time.monotonic())

    assert exporter.export([]) is SpanExportResult.FAILURE
