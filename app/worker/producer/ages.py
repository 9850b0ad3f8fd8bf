"""How long records wait for their acknowledgements, and which of them Kafka may hold twice. No clock, no Kafka.

`Waiting` counts records in generations by the time they were sent, which is cheap enough for the hot path.
`StoredAgain` compares late acknowledgements with changes of the producer's epoch: brokers do not recognize a record
as a duplicate when it was sent before such a change and is sent again after it.
"""

from __future__ import annotations

import re
from collections import Counter, deque

Identity = tuple[int, int]  #: producer id and epoch

_LATE_MAX = 20_000  # late acknowledgements remembered between two checks of the epoch
_CHANGES_MAX = 100
_IDENTITY = re.compile(r'"producer_id": *(-?\d+), *"producer_epoch": *(-?\d+)')


class Waiting:
    """Ages of the unacknowledged records of one client. One thread counts (`generation[0] += 1`, later `-= 1` on the
    same list), another one reads."""

    def __init__(self, generation_s: float, now_s: float) -> None:
        self.generation: list[int] = [0]  #: records sent now count here
        self._generation_s = generation_s
        self._since_s = now_s
        self._closed: deque[tuple[float, list[int]]] = deque()  # when it was closed, and what still waits of it

    def oldest_s(self, now_s: float) -> float:
        """Returns how many seconds the oldest record has waited at least; 0.0 = no record of a closed generation.

        The true age is less than two generations more.
        """
        if now_s - self._since_s >= self._generation_s:
            self._closed.append((now_s, self.generation))
            self.generation, self._since_s = [0], now_s
        # Keep an empty generation for one more period: the sending thread may have read `generation` just before it
        # was closed here, and would count its record in a list that nothing reads.
        while self._closed and not self._closed[0][1][0] and now_s - self._closed[0][0] >= self._generation_s:
            self._closed.popleft()
        for closed_s, waiting in self._closed:
            if waiting[0]:
                return now_s - closed_s
        return 0.0


class StoredAgain:
    """Records that may be stored twice: when the epoch changed they had been waiting for longer than a retry takes."""

    def __init__(self, now_s: float) -> None:
        self.identity: Identity | None = None  #: at the last check
        self._looked_s = now_s
        self._late: deque[tuple[str, float, float]] = deque(maxlen=_LATE_MAX)
        self._changes: deque[tuple[float, float]] = deque(maxlen=_CHANGES_MAX)

    def acknowledged(self, topic: str, sent_s: float, acked_s: float) -> bool:
        """Record a late acknowledgement. Returns whether it counts now; otherwise the next `looked` may count it."""
        if any(_within(sent_s, acked_s, change) for change in self._changes):
            return True
        self._late.append((topic, sent_s, acked_s))
        return False

    def looked(self, identity: Identity | None, now_s: float) -> Counter[str]:
        """Record the identity that the brokers know the producer by now. Returns how many more records count, by
        topic."""
        counts: Counter[str] = Counter()
        if identity is not None and self.identity not in (None, identity):
            change = (self._looked_s, now_s)
            self._changes.append(change)
            counts.update(topic for topic, sent_s, acked_s in self._late if _within(sent_s, acked_s, change))
        # The epoch changed at some time between the last check and now, so a record counts when its wait overlaps that
        # span. The count may be too high: not every such record was in fact sent again.
        self.identity, self._looked_s = identity or self.identity, now_s
        self._late.clear()
        return counts


def _within(sent_s: float, acked_s: float, change: tuple[float, float]) -> bool:
    after_s, before_s = change
    return sent_s < before_s and acked_s > after_s


def identity_of(statistics: str) -> Identity | None:
    """Producer id and epoch in librdkafka's statistics (`eos`, near their end); None before Kafka has assigned them."""
    match = _IDENTITY.search(statistics, max(0, statistics.rfind('"eos"')))
    identity = (int(match[1]), int(match[2])) if match else (-1, -1)
    return identity if min(identity) >= 0 else None
