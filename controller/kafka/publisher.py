"""Publishes contract records through the `Produce` port, and waits until they are read back. Event loop only.

Because it waits, the next decision sees as published exactly what every worker sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from knative.contract import records
from knative.ports import Produce, ProduceFailure
from knative.produce import send
from tables.contract_table import ContractTable, encode_entry
from tables.kafka.errors import KafkaFailed

Stored = asyncio.Future[ProduceFailure | None]


class Publisher:
    """Writes one record at a time; the topic has one partition."""

    def __init__(self, produce: Produce, table: ContractTable, topic: str, limit_s: float) -> None:
        self._produce = produce
        self._table = table
        self._topic = topic
        self._limit_s = limit_s
        self._changed = asyncio.Event()
        table.on_change(self._changed.set)

    async def publish_channel(self, record: records.Channel) -> None:
        """Store a channel's record. Raises KafkaFailed."""
        what = f"publishing channel {record.namespace}/{record.name}"
        await self._store(
            record.uid, encode_entry(record), lambda: self._table.channels.get(record.uid) == record, what
        )

    async def publish_subscription(self, record: records.Subscription) -> None:
        """Store a subscription's record. Raises KafkaFailed."""
        what = f"publishing subscription {record.label}"
        await self._store(
            record.uid, encode_entry(record), lambda: self._table.subscriptions.get(record.uid) == record, what
        )

    async def retract(self, uid: str) -> None:
        """Store a tombstone. Raises KafkaFailed."""
        table = self._table
        await self._store(
            uid, None, lambda: uid not in table.channels and uid not in table.subscriptions, f"retracting {uid}"
        )

    async def _store(self, uid: str, value: bytes | None, is_read: Callable[[], bool], what: str) -> None:
        await all_stored([send(self._produce, self._topic, value, uid.encode(), [], 0)], self._limit_s, what)
        await read_back(self._changed, is_read, self._limit_s, what)


async def all_stored(waiting: list[Stored], limit_s: float, what: str) -> None:
    """Wait until Kafka has acknowledged all records. `what`: what is done, for errors. Raises KafkaFailed."""
    if not waiting:
        return
    done, late = await asyncio.wait(waiting, timeout=limit_s)
    if late:
        raise KafkaFailed(f"{what}: Kafka did not acknowledge the record within {limit_s:g} s")
    for future in done:
        failure = future.result()
        if failure is not None:
            raise KafkaFailed(f"{what}: {failure.message} ({failure.problem.value})")


async def read_back(changed: asyncio.Event, is_read: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until `is_read` is true. The table sets `changed` when it changes. Raises KafkaFailed."""
    try:
        async with asyncio.timeout(limit_s):
            while not is_read():
                changed.clear()
                await changed.wait()
    except TimeoutError as problem:
        message = (
            f"{what}: Kafka stored the record, but it was not read back within {limit_s:g} s; the topic may "
            "have a newer one"
        )
        raise KafkaFailed(message) from problem
