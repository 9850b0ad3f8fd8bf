"""Facts laid out for judging: per subscription and event what its subscriber saw, per partition what is stored.

Only arranges; `checker` decides what is right or wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from knative.delivery.policy import DeliveryOrder
from tests.support.ledger.facts import Committed, Dead, Fact, Fault, Paused, Received, Sent, Stored

#: Faults of a worker after which an event may be delivered again, and all that may cost an attempt.
REPEATING = frozenset({"kill", "freeze"})
INTERRUPTING = frozenset({"kill", "freeze", "kafka", "term", "join"})


def every_event(sent: Sent) -> bool:
    """What a subscription without a filter wants."""
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """What one subscription was promised. `since_s`: events sent earlier are not owed to it (it was not ready yet).
    `wants`: which events it is to get; no others, whenever they were sent."""

    subscription: str
    order: DeliveryOrder
    retry: int
    group: str
    topic: str
    since_s: float = 0.0
    wants: Callable[[Sent], bool] = every_event

    def owed(self, sent: Sent) -> bool:
        """The subscription must get this event if it was accepted."""
        return sent.time_s >= self.since_s and self.wants(sent)


@dataclass(slots=True)
class History:
    """`received` is in order of arrival; `stored` goes by event id, `partitions` by (topic, partition) and offset.

    `hidden` are records of refused events at an offset that an earlier record has. A broker that fails after it wrote a
    record and before it wrote its index (a full disk) refuses it, and writes what is sent next to the same offset.
    Consumers take the first one and skip the others. An event that was accepted is never taken for such a one.
    """

    sent: dict[str, Sent] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    partitions: dict[tuple[str, int], list[Stored]] = field(default_factory=lambda: defaultdict(list))
    received: dict[str, dict[str, list[Received]]] = field(default_factory=lambda: defaultdict(dict))
    dead: dict[str, dict[str, list[Dead]]] = field(default_factory=lambda: defaultdict(dict))
    committed: dict[str, list[Committed]] = field(default_factory=lambda: defaultdict(list))
    faults: list[Fault] = field(default_factory=list)
    pauses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sent_twice: list[str] = field(default_factory=list)
    stored_twice: list[Stored] = field(default_factory=list)
    hidden: list[Stored] = field(default_factory=list)
    extra_copies: Counter[str] = field(default_factory=Counter)  #: of `stored_twice`, by event

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> History:
        """Facts in any order of files; lines of one file in the order they were written."""
        history, records = cls(), []
        for fact in facts:
            if isinstance(fact, Stored):
                records.append(fact)
            else:
                history._add(fact)
        history._place(records)
        for per_event in history.received.values():
            for visits in per_event.values():
                visits.sort(key=lambda visit: visit.time_s)
        for stored in history.partitions.values():
            stored.sort(key=lambda record: record.offset)
        for commits in history.committed.values():
            commits.sort(key=lambda commit: commit.time_s)
        return history

    def _add(self, fact: Fact) -> None:
        match fact:
            case Sent():
                if fact.id in self.sent:
                    self.sent_twice.append(fact.id)
                self.sent[fact.id] = fact
            case Received():
                self.received[fact.subscription].setdefault(fact.id, []).append(fact)
            case Dead():
                self.dead[fact.subscription].setdefault(fact.id, []).append(fact)
            case Committed():
                self.committed[fact.group].append(fact)
            case Fault():
                self.faults.append(fact)
            case Paused():
                self.pauses[fact.subscription].append(fact.time_s)

    def _place(self, records: Iterable[Stored]) -> None:
        """Records of a partition in the order in which a consumer reads them; all that was sent is known."""
        taken: set[tuple[str, int, int]] = set()
        for record in records:
            where, sent = (record.topic, record.partition, record.offset), self.sent.get(record.id)
            if where in taken and sent is not None and sent.status != 202:
                self.hidden.append(record)
                continue
            taken.add(where)
            if record.id in self.stored:
                self.stored_twice.append(record)
                self.extra_copies[record.id] += 1
            else:
                self.stored[record.id] = record
            self.partitions[(record.topic, record.partition)].append(record)

    def settled_s(self, subscription: str, event: str) -> float | None:
        """When the event was first delivered or dead-lettered; None = never."""
        times = [visit.answered_s for visit in self.received[subscription].get(event, ()) if delivered(visit)]
        times += [letter.time_s for letter in self.dead[subscription].get(event, ())]
        return min(times, default=None)

    def known_s(self, rule: Rule, event: str) -> float | None:
        """Since when Kafka has had every record of the event as settled for this subscription; None = never."""
        copies = [record for record in self.stored_twice if record.id == event]
        times: list[float] = []
        for record in (self.stored[event], *copies) if event in self.stored else ():
            moments = (
                commit.time_s
                for commit in self.committed[rule.group]
                if (commit.topic, commit.partition) == (record.topic, record.partition)
                and (commit.offset > record.offset or record.offset in commit.settled)
            )
            times.append(min(moments, default=inf))
        return max(times) if times and max(times) < inf else None

    def is_copy(self, record: Stored) -> bool:
        """Another record of the same event was stored before it."""
        return self.stored[record.id] != record

    def visits(self, subscription: str, record: Stored) -> list[Received]:
        """What the subscriber saw of this record, in order. Of a copy: what follows the first delivery; nothing of one
        in another partition, because the visits cannot be told apart."""
        visits = self.received[subscription].get(record.id, [])
        if not self.is_copy(record):
            return visits
        if record.partition != self.stored[record.id].partition:
            return []
        first = next((number for number, visit in enumerate(visits) if delivered(visit)), len(visits))
        return visits[first + 1 :]

    def deliveries(self) -> int:
        """Answers 2xx over all subscriptions."""
        return sum(delivered(visit) for visits in self._visits() for visit in visits)

    def _visits(self) -> Iterable[list[Received]]:
        for per_event in self.received.values():
            yield from per_event.values()


def delivered(visit: Received) -> bool:
    return 200 <= visit.status < 300


def lane(record: Stored, order: DeliveryOrder) -> tuple[object, ...]:
    """What the record must stay in order with. A keyless or unordered event is alone in its lane."""
    if order is DeliveryOrder.ORDERED:
        return (record.partition,)
    if order is DeliveryOrder.KEY_ORDERED and record.key is not None:
        return (record.partition, record.key)
    return (record.partition, None, record.offset)
