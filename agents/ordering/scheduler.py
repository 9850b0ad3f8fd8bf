"""Lanes: which record may be delivered next, so that what must stay in order does. Pure: records in, starts out.

    feed(partition, records)                 settle(record)
          |                                        |
          v                                        v
    lane free? --no--> waits behind its lane   lane's next record -> ready
          | yes                                or the lane is gone
          v
        ready --(slots free)--> start(record) --attempt ended--> attempt_over, and then settle, or later retry(record)

A lane is a partition (`ordered`), a record key of a partition (`key-ordered`; records without a key have no lane), or
nothing (`unordered`). A lane has at most one unsettled started record. A *slot* is one HTTP request in flight: a record
that waits for its retry holds its lane and no slot, so waiting blocks nobody else.

No Task, no Future and no lane object per record. Refuses to do I/O, to look at the clock and to decide what an answer
means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from agents.ordering.offset_metadata import STARTED_MAX
from agents.ordering.offset_tracker import Watermark
from agents.ordering.turns import FEW, Turns, unlimited
from knative.delivery.policy import Order

#: Lane of a record that needs none.
FREE: bytes = b"\x00no lane"
#: The one lane of a partition in `ordered`.
WHOLE: bytes = b"\x00the partition"


class Partition:
    """One partition of one subscription from its assignment to its revocation. A re-assignment makes a new one."""

    __slots__ = (
        "acknowledged",
        "beyond",
        "committed",
        "end",
        "failure",
        "in_flight",
        "lanes",
        "number",
        "open",
        "owned",
        "parked",
        "reached",
        "released",
        "released_bytes",
        "requested",
        "shared",
        "started",
        "taken",
        "taken_bytes",
        "topic",
        "watermark",
    )

    def __init__(self, topic: str, number: int, watermark: Watermark) -> None:
        self.topic = topic
        self.number = number
        self.watermark = watermark
        self.open = True  #: False: nothing new is started (being revoked, or gone)
        self.owned = True  #: False: let go; results that still arrive are not committed
        self.committed = 0  #: the watermark's `changes` as last committed
        self.acknowledged = watermark.next  #: the committed offset that Kafka confirmed last
        self.requested = watermark.next  #: the committed offset that Kafka was asked for last; it may not have answered
        self.end = -1  #: one past the newest record in the log, as last heard; -1 = not heard yet
        self.reached = -1  #: the client met the end of the log here: every record below it has been handed over
        self.failure = ""  #: why it is not served although owned
        self.lanes: dict[bytes, deque[Record] | None] = {}  # lane -> records behind its started one
        self.shared: dict[bytes, int] = {}  # lane -> started records beside its first (after a change of order only)
        self.beyond: deque[Record] = deque()  # fetched, but too far above the watermark to be started
        self.parked: deque[Record] = deque()  # ready, but too many are started in this partition
        self.started = 0  #: started and unsettled
        self.in_flight = 0  #: HTTP requests under way
        # Two counters with one writer each, not one with two: the consumer's thread adds, the event loop takes off.
        self.taken = self.taken_bytes = 0
        self.released = self.released_bytes = 0

    @property
    def held(self) -> int:
        """Records in memory."""
        return self.taken - self.released

    @property
    def held_bytes(self) -> int:
        """Bytes of records in memory."""
        return self.taken_bytes - self.released_bytes


class Record:
    """One Kafka record on its way to being settled."""

    __slots__ = ("began", "headers", "key", "lane", "offset", "partition", "resume", "size", "timestamp_ms", "value")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        size: int,
        timestamp_ms: int = 0,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.size = size
        self.timestamp_ms = timestamp_ms
        self.lane = FREE
        self.began = 0.0  #: monotonic time at which the present attempt began
        self.resume: Callable[[], None] | None = None  #: set while a retry waits for a slot


class Window:
    """The scheduler of one subscription: all its partitions, one pool of slots. Event loop only."""

    def __init__(
        self, start: Callable[[Record], None], order: Order, concurrency: int, turns: Turns | None = None
    ) -> None:
        """`start(record)` begins the first attempt; before it returns it calls nothing here but `give_back`. `turns` is
        shared with the other subscriptions of the event loop."""
        self._start = start
        self._turns = turns or unlimited()
        self.waits = False  #: for its turn
        self.order = order
        self.concurrency = concurrency
        self.ready: deque[Record] = deque()
        self.in_flight = 0  #: slots in use
        self.started: set[Record] = set()  #: started and unsettled, whether in flight or waiting for a retry
        self.settled = 0  #: records settled so far
        self.paused = False  #: True: no first attempt is started; see `pause`

    def pause(self, paused: bool) -> None:
        """Start no first attempts, or start them again. Retries and what is in flight go on."""
        self.paused = paused
        self.pump()

    def feed(self, partition: Partition, records: Sequence[Record]) -> None:
        """Take fetched records of one partition, in offset order. Those of a closed partition are dropped: the next
        owner reads them again."""
        if not partition.open:
            return
        watermark = partition.watermark
        for record in records:
            if watermark.add(record.offset):
                self._admit_as_fits(partition, record)
            else:
                self._release(record)
        self.pump()

    def _admit_as_fits(self, partition: Partition, record: Record) -> None:
        """In offset order: what comes after one that is too far above the watermark waits behind it."""
        if partition.beyond or not partition.watermark.fits(record.offset):
            partition.beyond.append(record)
        else:
            self._admit(partition, record)

    def _admit(self, partition: Partition, record: Record) -> None:
        order = self.order
        if order is Order.ORDERED:
            lane = WHOLE
        elif order is Order.KEY_ORDERED and record.key is not None:
            lane = record.key
        else:
            record.lane = FREE
            self.ready.append(record)
            return
        record.lane = lane
        lanes = partition.lanes
        if lane in lanes:
            behind = lanes[lane]
            if behind is None:
                lanes[lane] = behind = deque()
            behind.append(record)
        else:
            lanes[lane] = None
            self.ready.append(record)

    def pump(self) -> None:
        """Start what may be started."""
        ready, turns = self.ready, self._turns
        while ready and self.in_flight < self.concurrency:
            if self.paused and ready[0].resume is None:  # retries are in front of all first attempts
                return
            if turns.left <= 0 and self.in_flight >= FEW:
                turns.wait(self)
                return
            turns.left -= 1
            record = ready.popleft()
            partition = record.partition
            resume = record.resume
            if resume is None and not partition.open:
                continue
            if resume is None and partition.started >= STARTED_MAX:
                partition.parked.append(record)
                continue
            self.in_flight += 1
            partition.in_flight += 1
            if resume is not None:
                record.resume = None
                resume()
            else:
                partition.started += 1
                self.started.add(record)
                self._start(record)

    def attempt_over(self, record: Record) -> None:
        """The request has ended without settling: its slot is free, its lane is not."""
        self.give_back(record)
        if self.ready:
            self.pump()

    def give_back(self, record: Record) -> None:
        """The slot of a record that makes no request: for `start` and `resume`, after which `pump` goes on."""
        self.in_flight -= 1
        record.partition.in_flight -= 1

    def retry(self, record: Record, resume: Callable[[], None]) -> None:
        """The record wants a slot for its next attempt: before anything new. `resume` is called when it has one."""
        record.resume = resume
        self.ready.appendleft(record)
        self.pump()

    def withdraw(self, record: Record) -> None:
        """The record no longer wants the slot that `retry` asked for."""
        if record.resume is not None:
            record.resume = None
            self.ready.remove(record)

    def done(self, record: Record) -> None:
        """The attempt has ended and the record is settled: the happy path, both steps in one."""
        self.in_flight -= 1
        record.partition.in_flight -= 1
        self.settle(record)

    def settle(self, record: Record) -> None:
        """The record is settled (it holds no slot): the watermark may move and its lane goes on."""
        partition = record.partition
        partition.started -= 1
        partition.released += 1
        partition.released_bytes += record.size
        self.started.discard(record)
        self.settled += 1
        partition.watermark.settle(record.offset)
        lane = record.lane
        if lane is not FREE and not (partition.shared and self._still_shared(partition, lane)):
            behind = partition.lanes[lane]
            if behind:
                self.ready.append(behind.popleft())
            else:
                del partition.lanes[lane]
        if partition.beyond:
            self._admit_beyond(partition)
        if partition.parked:
            self.ready.append(partition.parked.popleft())
        if self.ready:
            self.pump()

    @staticmethod
    def _still_shared(partition: Partition, lane: bytes) -> bool:
        """One of several started records of this lane is settled: True while others are not."""
        others = partition.shared.pop(lane, 0)
        if others > 1:
            partition.shared[lane] = others - 1
        return others > 0

    def _admit_beyond(self, partition: Partition) -> None:
        beyond, watermark = partition.beyond, partition.watermark
        while beyond and watermark.fits(beyond[0].offset):
            self._admit(partition, beyond.popleft())

    @staticmethod
    def _release(record: Record) -> None:
        partition = record.partition
        partition.released += 1
        partition.released_bytes += record.size

    def close(self, partitions: Iterable[Partition]) -> None:
        """Nothing more of these partitions is started; what is under way may still be settled, for which it may want
        another slot."""
        for partition in partitions:
            partition.open = False
            partition.beyond.clear()
            partition.parked.clear()
            for behind in partition.lanes.values():
                if behind:
                    behind.clear()
        self.ready = deque(record for record in self.ready if record.partition.open or record.resume is not None)

    def abandon(self, record: Record) -> None:
        """A started record (it holds no slot) is left unsettled: its partition has gone to another owner."""
        self.started.discard(record)

    def reorder(self, order: Order, partitions: Iterable[Partition]) -> None:
        """Change the order mode: what waits is laned anew, and waits for all that is started in its new lane."""
        self.order = order
        waiting: dict[Partition, list[Record]] = {p: [*p.beyond, *p.parked] for p in partitions if p.open}
        for partition, records in waiting.items():
            for behind in partition.lanes.values():
                records.extend(behind or ())
            partition.lanes.clear()
            partition.shared.clear()
            partition.beyond.clear()
            partition.parked.clear()
        retrying = [record for record in self.ready if record.resume is not None]
        for record in self.ready:
            if record.resume is None and record.partition in waiting:
                waiting[record.partition].append(record)
        self.ready = deque(retrying)
        self._take_lanes()
        for partition, records in waiting.items():
            for record in sorted(records, key=lambda r: r.offset):
                self._admit_as_fits(partition, record)
        self.pump()

    def _take_lanes(self) -> None:
        """Give each started record its new lane."""
        for record in self.started:
            partition = record.partition
            if self.order is Order.ORDERED:
                record.lane = WHOLE
            elif self.order is Order.KEY_ORDERED and record.key is not None:
                record.lane = record.key
            else:
                record.lane = FREE
                continue
            if record.lane in partition.lanes:
                partition.shared[record.lane] = partition.shared.get(record.lane, 0) + 1
            else:
                partition.lanes[record.lane] = None
