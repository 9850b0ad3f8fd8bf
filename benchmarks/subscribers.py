"""Client of the sink: what its subscribers received, when, and how they should behave.

The process itself is `sink`. An answer other than 200 is an error.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tests.support.processes import Failed, SinkProcess

_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Times:
    """When one subscriber was asked; see `sink.Times`."""

    first_s: float
    last_s: float
    answered: int
    busy_s: float
    delays_s: list[float]

    @property
    def seconds(self) -> float:
        """From the first request to the last answer."""
        return self.last_s - self.first_s

    @property
    def service_s(self) -> float:
        """What it took for an event, on average."""
        return self.busy_s / self.answered if self.answered else 0.0


class Subscribers(SinkProcess):
    """A sink, with what a measurement asks of it."""

    def counter(self, names: Sequence[str], what: str = "delivered") -> Callable[[], int]:
        """Counts deliveries (or `distinct`, `duplicates`, ...) to these subscribers from now on."""

        def count() -> int:
            stats = self.stats()
            return sum(stats.get(name, {}).get(what, 0) for name in names)

        before = count()
        return lambda: count() - before

    def times(self, name: str) -> Times:
        """Returns the times since this was asked last."""
        return Times(**orjson.loads(self._ask("GET", f"/times/{name}")))

    def ids(self, name: str) -> set[str]:
        """Returns the events that it took."""
        ids: Any = orjson.loads(self._ask("GET", f"/ids/{name}"))
        return set(ids)

    def behave(self, name: str, behaviour: str) -> None:
        """From now on; what was left unanswered is answered."""
        self._ask("POST", f"/behave/{name}", behaviour.encode())

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Failed(f"the sink answered {response.status} to {method} {path}\n{self.tail()}")
        return answer
