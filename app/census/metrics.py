"""The five metrics of the demo, and the port that serves them.

Their names have no unit and no `_total`, so they are gauges, like `eventing_kafka_*`: the names stay for compatibility.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily

from knative.errors import PenstockError

DOWNLOADED = "kafka_scale_downloaded_gzips"
CHUNKS_WRITTEN = "kafka_scale_chunks_written"
COMPUTE_READ = "kafka_scale_compute_messages_read"
RESULTS_WRITTEN = "kafka_scale_result_messages_written"
RESULTS_READ = "kafka_scale_result_messages_read"

_HELP = {
    DOWNLOADED: "Census gzip files that read has downloaded",
    CHUNKS_WRITTEN: "Chunks that read has written to the compute topic",
    COMPUTE_READ: "Messages that compute has read from the compute topic",
    RESULTS_WRITTEN: "Messages that compute has written to the results topic",
    RESULTS_READ: "Messages that results has read from the results topic",
}


class CensusMetrics:
    """Counts of one command by name. Written by one thread, read by that of the port."""

    def __init__(self, *names: str) -> None:
        self.counts = dict.fromkeys(names, 0)

    def add(self, name: str, count: int = 1) -> None:
        """Add `count`."""
        self.counts[name] += count

    def collect(self) -> Iterator[Metric]:
        """For Prometheus."""
        for name, count in self.counts.items():
            yield GaugeMetricFamily(name, _HELP[name], value=count)


@contextmanager
def shown(metrics: CensusMetrics, port: int | None, bind: str) -> Iterator[None]:
    """Serve GET /metrics inside the block; `port` None = not at all. Raises PenstockError if it cannot be opened."""
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server: Any
        server, thread = start_http_server(port, bind, registry)
    except OSError as problem:
        raise PenstockError(
            f"The port {bind}:{port} for metrics cannot be opened ({problem.strerror}).",
            "Free it, or choose another one: --metrics-port PORT.",
        ) from problem
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
