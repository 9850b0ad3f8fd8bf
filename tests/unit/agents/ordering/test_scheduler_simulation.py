"""Lanes and watermarks in a simulated dispatcher: thousands of seeded schedules with kills, retries and changed order.

Nothing here sleeps: the simulation picks at random what happens next, and keeps a ledger that is checked at each step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from agents.offsets.lost_partitions import resumed
from agents.offsets.offset_metadata import read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from agents.offsets.state import STARTED, DeliveryState
from agents.ordering.scheduler import Scheduler
from knative.delivery.policy import DeliveryOrder
from tests.support.checked_state import CheckedDelivery
from tests.support.profiles import share

RETRIES = 3


@dataclass
class Log:
    """The partition in Kafka, and what was committed for it."""

    records: list[tuple[int, bytes | None]]
    committed: int = 0
    metadata: str = ""
    settled: set[int] = field(default_factory=set)  # over all owners
    attempts: dict[int, int] = field(default_factory=dict)  # over all owners


class Simulation:
    """One subscription, its owner killed and replaced at random."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        r = self.random
        self.order = r.choice(list(DeliveryOrder))
        self.concurrency = r.choice([1, 2, 5, 50])
        self.logs = [self.make_log() for _ in range(r.randint(1, 3))]
        self.kills = 0
        self.first_seen: dict[tuple[int, bytes], int] = {}  # lane -> newest offset delivered
        self.order_changed = False
        self.filter = self.choose_filter()
        self.settled: list[set[int]] = []  # what the present owner knows to be settled
        self.kept: list[set[int]] = []  # what it knew when it lost its partitions and had them again
        self.take_over()

    def make_log(self) -> Log:
        r = self.random
        offset = r.choice([0, 7, 1_000_000])
        keys = [None, *(b"k%d" % i for i in range(r.randint(1, 6)))]
        records = []
        for _ in range(r.randint(0, 60)):
            records.append((offset, r.choice(keys)))
            offset += 1 if r.random() < 0.95 else r.randint(2, 9)  # compaction leaves gaps
        return Log(records, committed=records[0][0] if records else 0)

    def take_over(self) -> None:
        """A new owner starts at what was committed."""
        marks = []
        for log in self.logs:
            metadata = read(log.committed, log.metadata)
            assert metadata.settled <= log.settled, "skips what was not settled: lost"
            marks.append(OffsetTracker(log.committed, metadata))
        self.kept = [set() for _ in self.logs]
        self.settled = [
            {o for o, _ in log.records if o < mark.committable or o in mark.settled}
            for log, mark in zip(self.logs, marks, strict=True)
        ]
        self.own(marks)

    def come_back(self) -> None:
        """The owner lost everything without a commit, and has it again: nothing that was settled is repeated."""
        marks = []
        for partition, log in zip(self.partitions, self.logs, strict=True):
            mark = resumed(log.committed, read(log.committed, log.metadata), partition.tracker, log.committed)
            assert mark.settled <= log.settled, "skips what was not settled: lost"
            marks.append(mark)
        self.kept = [set(offsets) for offsets in self.settled]
        self.own(marks)

    def choose_filter(self) -> int | None:
        """Only offsets of one kind pass, some half or a third; None = all do."""
        return self.random.choice([None, None, 2, 3])

    def wants(self, record: Delivery) -> bool:
        return self.filter is None or record.offset // 3 % self.filter != 0

    def passes(self, record: Delivery) -> bool:
        assert record.state is DeliveryState.QUEUED, "judged after it was made ready"
        if self.wants(record):
            return True
        self.logs[record.partition.number].settled.add(record.offset)
        self.settled[record.partition.number].add(record.offset)
        return False

    def own(self, marks: list[OffsetTracker]) -> None:
        """Fetch and deliver from these."""
        self.scheduler = Scheduler(self.began, self.order, self.concurrency)
        self.scheduler.passes = None if self.filter is None else self.passes
        self.deliveries: list[Delivery] = []  # all that the present owner fetched
        self.flying: list[Delivery] = []
        self.waiting: list[Delivery] = []
        self.partitions = [PartitionState("t", number, mark) for number, mark in enumerate(marks)]
        self.position = [
            next((i for i, (o, _) in enumerate(log.records) if o >= mark.committable), len(log.records))
            for log, mark in zip(self.logs, marks, strict=True)
        ]

    def began(self, record: Delivery) -> None:
        assert not self.scheduler.paused, "a first attempt while nothing can be committed"
        assert self.wants(record), "a first attempt of an event that does not pass"
        self.started(record)

    def started(self, record: Delivery) -> None:
        log = self.logs[record.partition.number]
        assert record.offset not in self.kept[record.partition.number], "settled before the partition came back"
        log.attempts[record.offset] = log.attempts.get(record.offset, 0) + 1
        self.flying.append(record)
        self.check_order(record)

    def check_order(self, record: Delivery) -> None:
        if self.order_changed or record.lane not in record.partition.lanes:
            return
        number = record.partition.number
        unsettled = [r for r in self.scheduler.started if r is not record and r.partition.number == number]
        assert all(r.lane != record.lane for r in unsettled), "two unsettled records of one lane"
        lane = (number, record.lane)
        log = self.logs[number]
        if log.attempts[record.offset] == 1:
            assert self.first_seen.get(lane, -1) < record.offset, "first delivered after a later one of its lane"
            self.first_seen[lane] = record.offset

    def check_states(self) -> None:
        """Every container of the scheduler holds what the states say, and nothing else."""
        states = DeliveryState
        assert {d for d in self.deliveries if d.state in STARTED} == self.scheduler.started
        assert {d for d in self.deliveries if d.state is states.IN_FLIGHT} == set(self.flying)
        assert len(self.flying) == self.scheduler.in_flight
        assert {d for d in self.deliveries if d.state is states.READY} == {
            d for d in self.scheduler.ready if d.resume is None
        }
        behind = (b for p in self.partitions for b in (p.out_of_span, p.over_limit, *p.lanes.values()) if b)
        assert {d for d in self.deliveries if d.state is states.QUEUED} == {d for queue in behind for d in queue}
        held = [d for d in self.deliveries if d.state not in (states.SETTLED, states.ABANDONED)]
        assert len(held) == sum(p.held for p in self.partitions)

    def step(self) -> None:
        if self.seed % 10 == 0:  # the whole comparison is expensive; each change is checked in every run
            self.check_states()
        choice = self.random.random()
        if choice < 0.30:
            self.fetch()
        elif choice < 0.70 and self.flying:
            self.answer(self.flying.pop(self.random.randrange(len(self.flying))))
        elif choice < 0.85 and self.waiting:
            self.retry(self.waiting.pop(self.random.randrange(len(self.waiting))))
        elif choice < 0.97:
            self.commit()
        elif choice < 0.975:
            self.order_changed = True
            self.order = self.random.choice(list(DeliveryOrder))
            self.filter = self.choose_filter()
            self.scheduler.passes = None if self.filter is None else self.passes
            self.scheduler.reorder(self.order, self.partitions)
        elif choice < 0.985 and self.kills < 5:
            self.kills += 1
            self.take_over()
        elif choice < 0.995:
            self.scheduler.pause(not self.scheduler.paused)
        elif choice < 0.997 and self.kills < 5:
            self.kills += 1  # what was in flight is aborted, and counts as an attempt
            self.come_back()

    def fetch(self) -> None:
        number = self.random.randrange(len(self.logs))
        log, at = self.logs[number], self.position[number]
        size = self.random.randint(1, 20)
        partition = self.partitions[number]
        batch: list[Delivery] = [CheckedDelivery(partition, o, k, b"x", [], 10) for o, k in log.records[at : at + size]]
        self.deliveries += batch
        self.position[number] += len(batch)
        partition.fetched_count += len(batch)
        partition.fetched_bytes += 10 * len(batch)
        self.scheduler.enqueue(partition, batch)

    def answer(self, record: Delivery) -> None:
        log = self.logs[record.partition.number]
        if self.random.random() < 0.3 and log.attempts[record.offset] <= RETRIES:
            made = record.partition.tracker.attempts.get(record.offset, 0) + 1
            record.partition.tracker.failed(record.offset, made, self.random.choice((0.0, 1.8e9, 1.8e9 + made)))
            self.waiting.append(record)
            self.scheduler.attempt_over(record)
        else:
            log.settled.add(record.offset)
            self.settled[record.partition.number].add(record.offset)
            if self.random.random() < 0.2:  # its retries are used up: the sink takes it, or the DLQ topic
                self.scheduler.dead_letter(record)
            self.scheduler.done(record)

    def retry(self, record: Delivery) -> None:
        self.scheduler.retry(record, lambda: self.started(record))

    def commit(self) -> None:
        for partition, log in zip(self.partitions, self.logs, strict=True):
            mark = partition.tracker
            unsettled = [o for o, _ in log.records if o not in log.settled]
            assert not unsettled or mark.committable <= unsettled[0], "committed beyond an unsettled record"
            assert mark.committable >= log.committed, "the watermark went down"
            log.committed, log.metadata = mark.committable, mark.metadata()
            metadata = read(log.committed, log.metadata)
            assert metadata.settled == mark.settled
            assert metadata.attempts == mark.attempts
            assert metadata.due.keys() == mark.due.keys()

    def finished(self) -> bool:
        fetched = all(len(log.records) == at for log, at in zip(self.logs, self.position, strict=True))
        return fetched and not self.scheduler.started and not self.scheduler.ready


@pytest.mark.parametrize("block", range(share(20)))
def test_no_overtaking_no_loss_and_honest_commits(block: int) -> None:
    for seed in range(block * 150, block * 150 + 150):
        simulation = Simulation(seed)
        for _ in range(20_000):
            simulation.step()
            if simulation.finished():
                break
        assert simulation.finished(), f"seed {seed} came to a halt"
        simulation.commit()
        for log in simulation.logs:
            assert len(log.settled) == len(log.records), f"seed {seed}: lost"
            assert all(n <= RETRIES + 1 + simulation.kills for n in log.attempts.values()), f"seed {seed}: attempts"
        held = [p for p in simulation.partitions if p.held or p.held_bytes or p.lanes or p.shared]
        assert not held, f"seed {seed}: something is still held"
