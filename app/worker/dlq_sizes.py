"""Counts the records of DLQ topics for the metrics, while this process leads: the end minus the start of each log.

The subscriptions of a channel share its DLQ topic. Redriven letters count too, because they stay in the topic.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import structlog

from app.timing import LOOK_S
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.kafka.loop_thread import call_in_thread
from tables.timing import ANSWER_S

log = structlog.get_logger(__name__)

EVERY_S = 30.0


class DlqSizes:
    """Runs from `start` to `stop`. Everything that asks Kafka is in a thread."""

    def __init__(
        self, kafka: Mapping[str, Any], topics: Callable[[], Collection[str]], leads: Callable[[], bool]
    ) -> None:
        """`topics`: returns the present DLQ topics; `leads`: whether this process is the leading controller."""
        self._topics, self._leads = topics, leads
        self._sizes: Mapping[str, int] = {}
        self._admin = KafkaAdmin(kafka, ANSWER_S)
        self._task: asyncio.Task[None] | None = None

    @property
    def sizes(self) -> Mapping[str, int]:
        """Records by topic; empty = another process counts, or Kafka has not answered yet."""
        return self._sizes if self._leads() else {}

    def start(self) -> None:
        """Start the task. Returns at once."""
        self._task = asyncio.create_task(self._run(), name="dlq-sizes")
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Stop. A count that runs in its thread ends by itself, within its limits."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(self._admin.close)

    async def _run(self) -> None:
        while True:
            leads = self._leads()
            if leads:
                count = partial(self.count, frozenset(self._topics()))
                try:
                    self._sizes = await call_in_thread(count, 4 * ANSWER_S, "dlq-sizes")  # three requests
                except (KafkaFailed, TimeoutError) as problem:
                    reason = str(problem) or "Kafka does not answer"
                    log.debug("DLQ topics cannot be counted now", reason=reason)
            else:
                self._sizes = {}
            await asyncio.sleep(EVERY_S if leads else LOOK_S)  # who leads by now counts at once

    def count(self, topics: Collection[str]) -> Mapping[str, int]:
        """Returns the records of those that exist. Blocks. Raises KafkaFailed."""
        sizes = Counter[str]()
        for (topic, _), (start, end) in self._admin.ranges(topics).items():
            sizes[topic] += max(0, end - start)  # retention may remove some between the two questions
        return sizes


def _ended(task: asyncio.Task[None]) -> None:
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        log.error("DLQ topics are no longer counted", exc_info=problem)
