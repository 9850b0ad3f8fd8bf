"""One redrive at a time: two would each deliver what the other has not written down yet.

    join the lock group --> its one partition is ours? --> redrive --> leave
                             | not yet: somebody else redrives, or was killed a moment ago

Kafka keeps the lock, for as long as a session of the group: a run that is killed holds it up for some seconds only.
Refuses to redrive anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from controller.kafka.leader_election import LeaderElection
from knative.contract.kafka_names import redrive_group, redriven_topic
from knative.errors import NotReadyError

_SESSION_S = 6.0  # the least that brokers allow by default
_SAY_AFTER_S = 2.0
_LEAVE_S = 3.0


@asynccontextmanager
async def redrive_lock(
    kafka: Mapping[str, Any], instance: str, lost: Callable[[], None], say: Callable[[str], None], limit_s: float = 30.0
) -> AsyncIterator[None]:
    """Inside of it nobody else redrives for this instance; its topic must be there. `lost` is called when that ends
    before, for a process that stood still too long. Raises NotReadyError after `limit_s`."""
    loop = asyncio.get_running_loop()
    mine = asyncio.Event()
    failures: list[BaseException] = []

    def changed() -> None:
        if lease.leading:
            mine.set()
        elif mine.is_set():
            lost()

    def crashed(problem: BaseException) -> None:
        failures.append(problem)
        mine.set()
        lost()

    lease = LeaderElection(
        redrive_group(instance), redriven_topic(instance), kafka, _SESSION_S, changed, crashed, quiet=True
    )
    telling = loop.call_later(_SAY_AFTER_S, say, "waiting for another redrive of this instance to end ...")
    lease.start()
    try:
        try:
            await asyncio.wait_for(mine.wait(), limit_s)
        except TimeoutError:
            raise NotReadyError(
                f"Another redrive of instance {instance} is under way.", "Start again when it has ended, or end it."
            ) from None
        finally:
            telling.cancel()
        if failures:
            raise NotReadyError(f"Whether somebody else redrives cannot be found out ({failures[0]}).", "Start again.")
        yield
    finally:
        mine.clear()  # leaving is no loss
        await lease.stop(_LEAVE_S)
