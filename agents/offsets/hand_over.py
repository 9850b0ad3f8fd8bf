"""Commits, as soon as Kafka answers again, what this process has settled in partitions that it lost.

    Kafka silent: sessions end, all workers lose their partitions    this worker has settled up to 140, committed is 100
    Kafka answers                                                    is 100 still committed? then commits 140
    the next owner, up to HANDOVER_S later                           begins at 140

It takes no membership: to join a group again takes seconds after an outage, and the client may hang in it for a minute,
when the next owner has gone on. Only if Kafka was silent for all: if just this process was cut off or frozen, others
have gone on, and know more than it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from agents.offsets.commits import offsets
from agents.offsets.group_offsets import GroupOffsets
from agents.offsets.lost_partitions import handed_over
from agents.offsets.partition import PartitionState
from knative.backoff import doubling_s
from knative.contract.records import Subscription
from tables.kafka.errors import KafkaFailed

log = structlog.get_logger(__name__)

_AGAIN_S = (0.05, 2.0)  # soon, unless Kafka refuses it for good


class HandOver:
    """For one subscription. Event loop only."""

    def __init__(
        self, subscription: Subscription, group_offsets: GroupOffsets, fatal: Callable[[BaseException], None]
    ) -> None:
        self._subscription = subscription
        self._group_offsets = group_offsets
        self._fatal = fatal
        self._left: dict[int, PartitionState] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, lost: Iterable[PartitionState]) -> None:
        """Hand over these partitions, which are lost and no longer change."""
        self._left |= {state.number: state for state in lost if state.tracker.changes != state.committed}
        if self._left and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def opened(self, number: int) -> None:
        """The partition is here again, and commits for itself."""
        self._left.pop(number, None)

    def end(self) -> None:
        """Hand over nothing any more."""
        self._left.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            waits_s = doubling_s(*_AGAIN_S)
            while self._left:
                if not await self._try(dict(self._left)):
                    await asyncio.sleep(next(waits_s))
        except Exception as problem:
            self._fatal(problem)
        finally:
            self._task = None

    async def _try(self, states: dict[int, PartitionState]) -> bool:
        subscription = self._subscription
        try:
            starts = await self._group_offsets.starts(subscription, states)
        except KafkaFailed as problem:
            log.debug("offsets are not handed over yet", subscription=subscription.label, reason=str(problem))
            return False
        ours: dict[int, PartitionState] = {}
        for number, state in states.items():
            start = starts.get(number)
            tracker = handed_over(state, start.offset, start.metadata) if start is not None else None
            if tracker is not None:  # else others have committed since
                ours[number] = PartitionState(state.topic, number, tracker)

        def claim() -> bool:
            return all(self._left.get(number) is states[number] for number in ours)

        places = offsets(ours.values())
        refused = await self._group_offsets.commit(subscription.group, places, claim) if places else None
        if refused is not None:
            log.debug("offsets are not handed over yet", subscription=subscription.label, reason=refused.str())
            return False
        for number, state in states.items():
            if self._left.get(number) is state:
                del self._left[number]
        log.info("offsets handed over", subscription=subscription.label, partitions=sorted(ours))
        return True
