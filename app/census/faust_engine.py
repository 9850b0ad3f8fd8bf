"""Counting as a Faust agent in a consumer group: the same pure function that Spark runs, scaled by more processes.

    topic compute --agent, in batches--> count --> topic results, acknowledged --> only then may the group commit

Faust commits what it has passed to an agent, even if the agent failed, was cancelled, or finished out of order. Here
`storable` is the offset up to which every result is stored, and the consumer (see `app/census/faust_app`) commits no
further. A chunk that is counted again after a kill has the same id and counts once. After a failure, or when records
are missing, the process ends; its partitions move to the others, at the last commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analytics.census.counting import count_record
from analytics.census.offset_sequence import Succession
from app.census.faust_app import FollowingApp

#: Stores (key, value) records in the results topic; returns when all are acknowledged, raises if one is not.
Store = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class FaustConfig:
    """`delay_s`: a wait for each chunk, to make the demo visible."""

    topic: str
    partitions: int
    batch: int = 200  #: chunks whose results are stored together, at most
    flush_s: float = 0.2
    delay_s: float = 0.0


class FaustCompute:
    """For the event loop only. Created by `register`."""

    def __init__(
        self, app: FollowingApp, config: FaustConfig, store: Store, crashed: Callable[[BaseException], None]
    ) -> None:
        self.config = config
        self.read = 0  #: chunks, by this process
        self.written = 0  #: results, by this process
        self.succession = Succession()
        self._app, self._store, self._crashed = app, store, crashed
        self._dead = False
        self._stored: dict[int, int] = {}

    def begin(self, committed: Mapping[int, int | None], earliest: Mapping[int, int]) -> dict[int, int]:
        """Where to continue in each assigned partition: at the committed offset, or at the beginning."""
        starts = {}
        for partition, offset in committed.items():
            starts[partition] = max(offset or 0, earliest.get(partition, 0))
            self.succession.start(partition, starts[partition])
            self._stored[partition] = starts[partition]
        return starts

    def storable(self, partition: int) -> int | None:
        """The first offset whose result is not stored; None = unknown."""
        return self._stored.get(partition)

    async def follow(self, stream: Any) -> None:
        """The agent."""
        async for events in stream.take_events(self.config.batch, within=self.config.flush_s):
            if self._dead:
                continue
            try:
                await self._compute(events)
            except asyncio.CancelledError:
                raise
            except Exception as problem:  # Faust loses events when an agent raises, so end the process instead
                self._dead = True
                self._crashed(problem)

    async def _compute(self, events: Sequence[Any]) -> None:
        results: list[tuple[bytes, bytes]] = []
        reached: dict[int, int] = {}
        torn: set[int] = set()
        for message in self._app.in_order(events, torn):
            where = f"{message.topic}/{message.partition}/{message.offset}"
            headers = _headers(message.headers)
            results.append(count_record(message.key, message.value, headers, where))
            reached[message.partition] = message.offset + 1
            if self.config.delay_s:
                await asyncio.sleep(self.config.delay_s)
        self.read += len(results)
        await self._store(results)
        self.written += len(results)
        self._stored.update(reached)
        await self._app.read_torn(torn)


def _headers(given: Any) -> list[tuple[str, bytes | None]]:
    return list(given.items()) if isinstance(given, Mapping) else list(given or ())


def register(
    app: FollowingApp, config: FaustConfig, store: Store, crashed: Callable[[BaseException], None]
) -> FaustCompute:
    """The agent, on a Faust app whose consumer asks `begin` where to start and `storable` how far to commit."""
    compute = FaustCompute(app, config, store, crashed)
    raw: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    # Raw bytes: a record that Faust cannot decode ends its stream without an error.
    topic = app.topic(config.topic, internal=True, partitions=config.partitions, **raw)
    app.agent(topic, name="census-compute")(compute.follow)
    return compute
