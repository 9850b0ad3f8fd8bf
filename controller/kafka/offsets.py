"""Commits the start offsets of a subscription for its group, before the group has members, and reads them back.

    list offsets (earliest | latest) -> commit -> check each partition's own error -> read back -> equal? done

The call as a whole can succeed although every partition has an error (the coordinator of a new broker is still loading,
the group has a member). So each error is checked, temporary ones are retried, and only offsets that were read back
count. Kafka rejects the commit if the group has members. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

from knative.resources.kinds import Start
from tables.kafka.admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaNotYet

T = TypeVar("T")

_PASSING = (KafkaNotYet, KafkaNotFound)  # not found: a topic that was just created is not known everywhere yet
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Offsets:
    """Committed offsets of groups, with retries for `limit_s`. Raises KafkaFailed."""

    def __init__(self, admin: KafkaAdmin, limit_s: float) -> None:
        self._admin = admin
        self._limit_s = limit_s

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The committed offset of each partition that has one."""
        places = [(topic, partition) for partition in partitions]
        found = self._with_retries(lambda: self._admin.committed(group, places))
        return {partition: one.offset for (_, partition), one in found.items()}

    def commit_start(self, group: str, topic: str, partitions: Sequence[int], start: Start) -> None:
        """Commit the earliest or latest offset of these partitions and read it back."""
        look_up = self._admin.first_offsets if start is Start.EARLIEST else self._admin.end_offsets
        wish = self._with_retries(lambda: look_up((topic, partition) for partition in partitions))
        self._with_retries(lambda: self._admin.commit(group, wish))
        found = self.committed(group, topic, partitions)
        wished = {partition: offset for (_, partition), offset in wish.items()}
        if found != wished:
            raise KafkaFailed(
                f"committing the start of group {group}: read back {found} after committing {wished}; "
                "check whether another client uses the group"
            )

    def _with_retries(self, call: Callable[[], T]) -> T:
        """Call again, with pauses, while the error is temporary and the time limit is not reached."""
        retrying = Retrying(
            retry=retry_if_exception_type(_PASSING),
            stop=stop_before_delay(self._limit_s),
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
            reraise=True,
        )
        return retrying(call)
