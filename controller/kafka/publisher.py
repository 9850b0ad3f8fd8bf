"""Publishes contract records through the `Produce` port, and waits until they are read back. Event loop only.

After reading back, the next decision sees as published exactly what every worker sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.kafka.topics import ActionFailed
from knative.contract import records
from knative.ports import Produce, ProduceFailure
from tables.contract_table import ContractTable, encode_entry


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
        """Store a channel's record. Raises ActionFailed."""
        what = f"publishing channel {record.namespace}/{record.name}"
        await self._store(record.uid, encode_entry(record), what)
        await self._read_back(lambda: self._table.channels.get(record.uid) == record, what)

    async def publish_subscription(self, record: records.Subscription) -> None:
        """Store a subscription's record. Raises ActionFailed."""
        what = f"publishing subscription {record.label}"
        await self._store(record.uid, encode_entry(record), what)
        await self._read_back(lambda: self._table.subscriptions.get(record.uid) == record, what)

    async def retract(self, uid: str) -> None:
        """Store a tombstone. Raises ActionFailed."""
        what = f"retracting {uid}"
        await self._store(uid, None, what)
        await self._read_back(lambda: uid not in self._table.channels and uid not in self._table.subscriptions, what)

    async def _store(self, uid: str, value: bytes | None, what: str) -> None:
        stored: asyncio.Future[ProduceFailure | None] = asyncio.get_running_loop().create_future()

        def done(failure: ProduceFailure | None) -> None:
            if not stored.done():
                stored.set_result(failure)

        self._produce.send(self._topic, value, uid.encode(), [], done, 0)
        try:
            failure = await asyncio.wait_for(stored, self._limit_s)
        except TimeoutError as problem:
            raise ActionFailed(f"{what}: Kafka did not acknowledge the record within {self._limit_s:g} s") from problem
        if failure is not None:
            raise ActionFailed(f"{what}: {failure.message} ({failure.problem.value})")

    async def _read_back(self, there: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                while not there():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as problem:
            message = f"{what}: stored, but not read back within {self._limit_s:g} s; the topic may have a newer one"
            raise ActionFailed(message) from problem
