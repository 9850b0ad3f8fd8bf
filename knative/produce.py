"""Sends one record through the `Produce` port and awaits its acknowledgement. Event loop only."""

from __future__ import annotations

import asyncio

from knative.ports import Headers, Produce, ProduceFailure


def send(
    produce: Produce, topic: str, value: bytes | None, key: bytes | None, headers: Headers, partition: int = -1
) -> asyncio.Future[ProduceFailure | None]:
    """Send a record; the future has the failure, or None once Kafka has acknowledged it."""
    answer: asyncio.Future[ProduceFailure | None] = asyncio.get_running_loop().create_future()

    def done(failure: ProduceFailure | None) -> None:
        if not answer.done():  # cancelled meanwhile
            answer.set_result(failure)

    produce.send(topic, value, key, headers, done, partition)
    return answer
