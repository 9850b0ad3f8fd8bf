"""Lanes and watermarks in a simulated dispatcher: thousands of seeded schedules with kills, retries and changed order.

Nothing here sleeps: the simulation picks at random what happens next, and keeps a ledger that is checked at each step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from agents.consumer.retained import resumed
from agents.ordering.offset_metadata import METADATA_MAX, SPAN_MAX, STARTED_MAX, OffsetMetadata, read
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.scheduler import Delivery, PartitionState, Scheduler
from knative.delivery.policy import DeliveryOrder

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
        self.random = random.Random(seed)
        r = self.random
        self.order = r.choice(list(DeliveryOrder))
        self.concurrency = r.choice([1, 2, 5, 50])
        self.logs = [self.make_log() for _ in range(r.randint(1, 3))]
        self.kills = 0
        self.first_seen: dict[tuple[int, bytes], int] = {}  # lane -> newest offset delivered
        self.order_changed = False
        self.known: list[set[int]] = []  # what the present owner knows to be settled
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
            known = read(log.committed, log.metadata)
            assert known.settled <= log.settled, "skips what nobody settled: lost"
            marks.append(OffsetTracker(log.committed, known))
        self.kept = [set() for _ in self.logs]
        self.known = [
            {o for o, _ in log.records if o < mark.committable or o in mark.settled}
            for log, mark in zip(self.logs, marks, strict=True)
        ]
        self.own(marks)

    def come_back(self) -> None:
        """The owner lost everything without a commit, and has it again: nothing that was settled is repeated."""
        marks = []
        for partition, log in zip(self.partitions, self.logs, strict=True):
            mark = resumed(log.committed, read(log.committed, log.metadata), partition.tracker, log.committed)
            assert mark.settled <= log.settled, "skips what nobody settled: lost"
            marks.append(mark)
        self.kept = [set(known) for known in self.known]
        self.own(marks)

    def own(self, marks: list[OffsetTracker]) -> None:
        """Fetch and deliver from these."""
        self.scheduler = Scheduler(self.began, self.order, self.concurrency)
        self.flying: list[Delivery] = []
        self.waiting: list[Delivery] = []
        self.partitions = [PartitionState("t", number, mark) for number, mark in enumerate(marks)]
        self.position = [
            next((i for i, (o, _) in enumerate(log.records) if o >= mark.committable), len(log.records))
            for log, mark in zip(self.logs, marks, strict=True)
        ]

    def began(self, record: Delivery) -> None:
        assert not self.scheduler.paused, "a first attempt while nothing can be committed"
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

    def step(self) -> None:
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
        batch = [Delivery(partition, o, k, b"x", [], 10) for o, k in log.records[at : at + size]]
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
            self.known[record.partition.number].add(record.offset)
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
            known = read(log.committed, log.metadata)
            assert known.settled == mark.settled
            assert known.attempts == mark.attempts
            assert known.due.keys() == mark.due.keys()

    def finished(self) -> bool:
        fetched = all(len(log.records) == at for log, at in zip(self.logs, self.position, strict=True))
        return fetched and not self.scheduler.started and not self.scheduler.ready


@pytest.mark.parametrize("block", range(20))
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


def test_a_compacted_away_settled_offset_is_forgotten() -> None:
    mark = OffsetTracker(10, OffsetMetadata(frozenset({12, 14})))
    for offset in (10, 13, 14, 20):
        mark.add(offset)
    for offset in (10, 13, 20):
        mark.settle(offset)
    assert (mark.committable, mark.settled) == (21, set())


def test_records_lost_to_retention_move_the_mark_when_nothing_is_open() -> None:
    mark = OffsetTracker(10)
    mark.skip_to(50)
    assert mark.committable == 50
    mark.add(50)
    mark.skip_to(90)
    assert mark.committable == 50
    mark.settle(50)
    assert mark.committable == 90


def test_a_record_fetched_twice_is_delivered_once() -> None:
    mark = OffsetTracker(10)
    assert mark.add(10)
    assert not mark.add(10)
    mark.settle(10)
    assert not mark.add(10)
    assert mark.committable == 11


def test_attempts_of_a_record_that_is_gone_do_not_reach_the_next_commit() -> None:
    mark = OffsetTracker(10, OffsetMetadata(attempts={10: 2, 12: 1}, due={10: 1.8e9}))
    mark.add(11)
    mark.settle(11)
    mark.add(12)
    assert read(12, mark.metadata()) == OffsetMetadata(attempts={12: 1})


def test_far_above_the_mark_nothing_starts_until_it_moves() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10)
    partition = PartitionState("t", 0, OffsetTracker(0))
    records = [Delivery(partition, o, None, None, [], 1) for o in (0, 1, SPAN_MAX, SPAN_MAX + 1)]
    scheduler.enqueue(partition, records)
    assert [r.offset for r in started] == [0, 1]
    scheduler.done(records[0])
    assert [r.offset for r in started] == [0, 1, SPAN_MAX]
    scheduler.done(records[1])
    assert [r.offset for r in started] == [0, 1, SPAN_MAX, SPAN_MAX + 1]


def test_at_most_so_many_of_a_partition_are_started() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10_000)
    partition = PartitionState("t", 0, OffsetTracker(0))
    scheduler.enqueue(partition, [Delivery(partition, o, None, None, [], 1) for o in range(STARTED_MAX + 5)])
    assert len(started) == STARTED_MAX
    scheduler.done(started[0])
    assert len(started) == STARTED_MAX + 1


def test_while_paused_only_retries_start() -> None:
    started: list[int] = []
    scheduler = Scheduler(lambda record: started.append(record.offset), DeliveryOrder.UNORDERED, 2)
    partition = PartitionState("t", 0, OffsetTracker(0))
    records = [Delivery(partition, o, None, None, [], 1) for o in range(4)]
    scheduler.enqueue(partition, records)
    scheduler.pause(True)
    scheduler.attempt_over(records[0])
    scheduler.done(records[1])
    assert started == [0, 1]
    scheduler.retry(records[0], lambda: started.append(100))
    assert started == [0, 1, 100]
    scheduler.pause(False)
    assert started == [0, 1, 100, 2]


def test_a_closed_partition_starts_nothing_and_others_go_on() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.ORDERED, 1)
    one, two = PartitionState("t", 0, OffsetTracker(0)), PartitionState("t", 1, OffsetTracker(0))
    scheduler.enqueue(one, [Delivery(one, o, None, None, [], 1) for o in range(3)])
    scheduler.enqueue(two, [Delivery(two, o, None, None, [], 1) for o in range(3)])
    scheduler.close([one])
    scheduler.done(started[0])
    assert [r.partition for r in started] == [one, two]
    assert one.tracker.committable == 1
    scheduler.enqueue(one, [Delivery(one, 3, None, None, [], 1)])
    scheduler.done(started[1])
    assert [r.partition for r in started] == [one, two, two]


@pytest.mark.parametrize("gap", [1, SPAN_MAX, 100 * SPAN_MAX])
def test_a_hole_in_the_log_stops_nothing(gap: int) -> None:
    """Compaction and aborted transactions leave holes larger than what metadata can span."""
    started: list[int] = []
    scheduler = Scheduler(lambda record: started.append(record.offset), DeliveryOrder.ORDERED, 10)
    partition = PartitionState("t", 0, OffsetTracker(5))
    records = [Delivery(partition, offset, b"k", b"", [], 1) for offset in (5 + gap, 5 + 2 * gap, 6 + 2 * gap)]
    scheduler.enqueue(partition, records)
    assert partition.tracker.committable == 5 + gap
    for record in records:
        assert started[-1] == record.offset
        scheduler.done(record)
    assert partition.tracker.committable == 7 + 2 * gap


def test_attempts_that_do_not_fit_are_forgotten_before_anything_settled() -> None:
    """An earlier owner in another order mode may have counted other records than the ones that fail now."""
    numbers = random.Random(1)
    many = {offset: numbers.randint(128, 16_000) for offset in range(1, SPAN_MAX, 5)}
    tracker = OffsetTracker(0, OffsetMetadata(attempts=many))
    for offset in range(SPAN_MAX):
        tracker.add(offset)
    settled = {offset for offset in range(1, SPAN_MAX) if numbers.random() < 0.5}
    for offset in settled:
        tracker.settle(offset)
    text = tracker.metadata()
    assert len(text) <= METADATA_MAX
    known = read(0, text)
    assert known.settled == settled
    assert known.attempts
    assert known.attempts.items() <= tracker.attempts.items()


def test_a_change_of_order_starts_nothing_that_its_commit_could_not_tell() -> None:
    """What is too far above the watermark waits on, in whichever lane."""
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10_000)
    partition = PartitionState("t", 0, OffsetTracker(0))
    offsets = (0, 1, SPAN_MAX, SPAN_MAX + 1)
    scheduler.enqueue(partition, [Delivery(partition, o, b"k%d" % o, None, [], 1) for o in offsets])
    assert [record.offset for record in started] == [0, 1]
    scheduler.reorder(DeliveryOrder.KEY_ORDERED, [partition])
    assert [record.offset for record in started] == [0, 1]
    scheduler.done(started[1])
    scheduler.done(started[0])
    assert [record.offset for record in started] == [0, 1, SPAN_MAX, SPAN_MAX + 1]
