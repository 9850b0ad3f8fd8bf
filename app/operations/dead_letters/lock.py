"""A group lock that lets one redrive run at a time: two would both deliver letters that are not in the ledger yet.

    join the lock group --> its one partition is ours? --> redrive --> leave
                             | not yet: another run has it, or was killed a moment ago

Kafka holds the lock for one session of the group, so after a kill the next run waits for a few seconds only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from app.timing import SAY_S, SESSION_MIN_S
from knative.contract.kafka_names import redrive_group, redriven_topic
from knative.errors import NotReadyError
from tables.kafka.group_lock import GroupLock
from tables.timing import CLOSE_S


@asynccontextmanager
async def redrive_lock(
    kafka: Mapping[str, Any], instance: str, lost: Callable[[], None], say: Callable[[str], None], limit_s: float = 30.0
) -> AsyncIterator[None]:
    """Inside the block no other process redrives for this instance. The redriven topic must exist.

    `lost` is called when the lock is lost inside the block, for example because this process was suspended for longer
    than a session. Raises NotReadyError when the lock is not free within `limit_s`.
    """
    loop = asyncio.get_running_loop()
    mine = asyncio.Event()
    failures: list[BaseException] = []
    reasons: list[str] = []  # why the group could not be joined, the last one at the end

    def changed(held: bool) -> None:
        if held:
            mine.set()
        elif mine.is_set():  # we had it; before that, not to hold it is the normal state of a waiting member
            lost()

    def crashed(problem: BaseException) -> None:
        failures.append(problem)
        mine.set()  # wakes the wait below, which then raises the failure
        lost()

    lock = GroupLock(
        redrive_group(instance), redriven_topic(instance), kafka, SESSION_MIN_S,
        changed=changed, crashed=crashed, failed=reasons.append,
    )  # fmt: skip
    notice = loop.call_later(SAY_S, say, "waiting for another redrive of this instance to end ...")
    lock.start()
    try:
        try:
            async with asyncio.timeout(limit_s):
                await mine.wait()
        except TimeoutError:
            if reasons:
                raise NotReadyError(
                    f"The lock for a redrive of instance {instance} could not be taken: {reasons[-1]}.",
                    "Fix that problem. If another redrive is running, start again when it has ended.",
                ) from None
            raise NotReadyError(
                f"Another redrive of instance {instance} is running.",
                "Start again when that redrive has ended, or stop it.",
            ) from None
        finally:
            notice.cancel()
        if failures:
            raise NotReadyError(f"The redrive lock could not be taken ({failures[0]}).", "Start again.")
        yield
    finally:
        mine.clear()  # so that leaving the group does not call `lost`
        await lock.stop(CLOSE_S)
