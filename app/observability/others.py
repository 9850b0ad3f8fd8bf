"""Asks the other processes of the same command for their admin pages, which they serve at sockets in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from prometheus_client import Metric
from prometheus_client.registry import Collector

from app.observability.merging import Totals, counters, families, merged
from app.timing import GLANCE_S

#: What processes tell each other in place of /metrics.
SAMPLES = "/samples"


class Others:
    """Asks the other processes, for the first one. Event loop only."""

    def __init__(self, paths: Mapping[int, str], began_at: float) -> None:
        """`paths`: number of a process -> its socket. `began_at`: of this process, by the monotonic clock."""
        self._paths = paths
        self._totals = Totals(began_at)
        self._scrapes = asyncio.Lock()  # an answer that is older than the last one would count twice

    async def ask(self, page: str) -> dict[int, tuple[int, Any]]:
        """Returns number -> status and fields of this page; status 0 = it does not answer."""
        answers = await asyncio.gather(*(_get(path, page) for path in self._paths.values()))
        return dict(zip(self._paths, answers, strict=True))

    async def metrics(self, registry: Collector) -> Collector:
        """Returns the metrics of all processes. `registry`: the metrics of this one."""
        async with self._scrapes:
            answers = await self.ask(SAMPLES)
            own = families(registry.collect())
            parts = [own]
            for number, (status, answer) in answers.items():
                if status == 200:
                    parts.append(answer["families"])
                    self._totals.take(number, answer["began_at"], counters(answer["families"]))
            return _Collected(merged(parts, self._totals.sums(counters(own))))


class _Collected(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


async def _get(path: str, page: str) -> tuple[int, Any]:
    request = f"GET {page} HTTP/1.1\r\nhost: process\r\nconnection: close\r\n\r\n".encode()
    try:
        async with asyncio.timeout(GLANCE_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(request)
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
        return int(head.split()[1]), orjson.loads(body)
    except (OSError, IndexError, ValueError):  # it has ended, starts, or hangs
        return 0, None
