"""Decides which delivery is started next, so that what must stay in order does. Pure: deliveries in, starts out.

    enqueue(partition, deliveries)           settle(delivery)
          |                                        |
          v                                        v
    passes? --no--> settled (filtered out)     lane's next delivery -> ready,
          | yes                                or the lane ends
          v
    lane free? --no--> waits behind its lane
          | yes
          v
        ready --(slots free)--> start(delivery) --attempt ends--> attempt_over, then settle, or later retry(delivery)

A lane is a partition (`ordered`) or a record key in a partition (`key-ordered`; records without a key have no lane);
`unordered` has no lanes. A lane has at most one started, unsettled delivery. A *slot* is one HTTP request in flight. A
delivery that waits for its retry holds its lane and no slot, so it does not block other lanes.

There is no Task, Future or lane object per delivery, because this code runs for every event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from agents.offsets.offset_metadata import STARTED_MAX
from agents.offsets.partition import NO_LANE, WHOLE, Delivery, PartitionState
from agents.offsets.state import DeliveryState
from agents.ordering.throttle import FAILING, score
from agents.ordering.turns import FEW, Turns, unlimited
from knative.delivery.policy import DeliveryOrder

# Module names: the lookup of an enum's attribute costs twice as much, and each delivery needs three.
_QUEUED, _READY, _IN_FLIGHT = DeliveryState.QUEUED, DeliveryState.READY, DeliveryState.IN_FLIGHT
_BACKING_OFF, _SETTLED, _ABANDONED = DeliveryState.BACKING_OFF, DeliveryState.SETTLED, DeliveryState.ABANDONED


class Scheduler:
    """Schedules one subscription: all its partitions share one pool of slots. Event loop only."""

    def __init__(
        self, start: Callable[[Delivery], None], order: DeliveryOrder, concurrency: int, turns: Turns | None = None
    ) -> None:
        """`start(delivery)` begins the first attempt; before it returns it may only call `release_slot`.
        `turns` is shared with the other subscriptions of the event loop."""
        self._start = start
        self._turns = turns or unlimited()
        self.waits = False  #: queued in `Turns`
        self.throttled = False  #: queued in `Throttle`: its attempts keep failing and the loop is busy
        self.score = 0  #: how often its attempts fail, see `agents/ordering/throttle`
        self.order = order
        self.concurrency = concurrency
        self.ready: deque[Delivery] = deque()
        self.in_flight = 0  #: slots in use
        self.started: set[Delivery] = set()  #: started and unsettled, whether in flight or waiting for a retry
        self.settled = 0  #: deliveries settled so far
        self.paused = False  #: True: no first attempt is started; see `pause`
        #: Whether the subscription wants this event; None = it wants all. After a change call `reorder`.
        self.passes: Callable[[Delivery], bool] | None = None

    def pause(self, paused: bool) -> None:
        """Start no first attempts, or start them again. Retries and requests in flight continue."""
        self.paused = paused
        self.start_ready()

    def enqueue(self, partition: PartitionState, records: Sequence[Delivery], end: int = 0) -> None:
        """Add fetched records of one partition, in offset order. Those of a closed partition are dropped: the next
        owner reads them again. `end`: the log has nothing else for this subscription below it."""
        if not partition.open:
            _abandon(records)
            return
        tracker = partition.tracker
        for delivery in records:
            if tracker.add(delivery.offset):
                self._admit_as_fits(partition, delivery)
            else:  # settled by an earlier owner, or fetched twice
                self._release(delivery)
        if end > tracker.fetched:
            tracker.skip_to(end)
        if partition.out_of_span:  # what was filtered out has moved the committable offset
            self._admit_beyond(partition)
        self.start_ready()

    def _admit_as_fits(self, partition: PartitionState, delivery: Delivery) -> None:
        """Admit the delivery, or let it wait until the committable offset is closer. Those after it wait too, so that
        they stay in offset order."""
        if partition.out_of_span or not partition.tracker.fits(delivery.offset):
            partition.wait_for_span(delivery)
        else:
            self._admit(partition, delivery)

    def _admit(self, partition: PartitionState, delivery: Delivery) -> None:
        # Here, and not when a slot is free: an event that is filtered out waits for no lane and no slot. It waits until
        # it fits into the commit metadata, like any event.
        if self.passes is not None and not self.passes(delivery):
            self._filter_out(delivery)
            return
        order = self.order
        if order is DeliveryOrder.ORDERED:
            lane = WHOLE
        elif order is DeliveryOrder.KEY_ORDERED and delivery.key is not None:
            lane = delivery.key
        else:
            delivery.lane = NO_LANE
            delivery.state = _READY
            self.ready.append(delivery)
            return
        delivery.lane = lane
        lanes = partition.lanes
        if lane in lanes:
            behind = lanes[lane]
            if behind is None:
                lanes[lane] = behind = deque()
            behind.append(delivery)
        else:
            lanes[lane] = None
            delivery.state = _READY
            self.ready.append(delivery)

    def start_ready(self) -> None:
        """Start as many ready deliveries as slots, turns and throttle allow."""
        ready, turns = self.ready, self._turns
        throttle, failing = turns.throttle, self.score >= FAILING
        if not failing:
            throttle.others = True
        while ready and self.in_flight < self.concurrency:
            if self.paused and ready[0].resume is None:  # `retry` puts retries in front of all first attempts
                return
            # With few requests in flight it never waits: a subscription with one slot would get one event a turn.
            if turns.left <= 0 and self.in_flight >= FEW:
                turns.wait(self)
                return
            if failing:
                if throttle.left < 1:
                    throttle.wait(self)
                    return
                throttle.left -= 1
            turns.left -= 1
            delivery = ready.popleft()
            partition = delivery.partition
            resume = delivery.resume
            if resume is None and not partition.open:
                delivery.state = _ABANDONED
                continue
            # Each started delivery may add an attempt count to the commit metadata, whose length is limited. A retry is
            # counted already.
            if resume is None and partition.started >= STARTED_MAX:
                delivery.state = _QUEUED
                partition.wait_for_others(delivery)
                continue
            # Count the slot first: `resume` and `start` may release it before they return.
            self.in_flight += 1
            partition.in_flight += 1
            if resume is not None:
                delivery.resume = None
                if delivery.state is _BACKING_OFF:  # a retry of the dead letter sink stays DEAD_LETTERING
                    delivery.state = _IN_FLIGHT
                resume()
            else:
                delivery.state = _IN_FLIGHT
                partition.started += 1
                self.started.add(delivery)
                self._start(delivery)

    def attempt_over(self, delivery: Delivery) -> None:
        """The request has ended and the delivery is not settled: release its slot, keep its lane."""
        self.release_slot(delivery)
        if self.ready:
            self.start_ready()

    def judged(self, succeeded: bool) -> None:
        """Report the result of an attempt that does not end with `done`."""
        self.score = score(self.score, succeeded)

    def release_slot(self, delivery: Delivery) -> None:
        """Release the slot and start nothing: for `start` and `resume`, whose caller `start_ready` continues anyway."""
        self.in_flight -= 1
        delivery.partition.in_flight -= 1
        if delivery.state is _IN_FLIGHT:
            delivery.state = _BACKING_OFF

    def dead_letter(self, delivery: Delivery) -> None:
        """The delivery has failed permanently, or its record is not a CloudEvent; it may still hold its slot."""
        delivery.state = DeliveryState.DEAD_LETTERING

    def retry(self, delivery: Delivery, resume: Callable[[], None]) -> None:
        """Ask for a slot for the next attempt, ahead of all first attempts. `resume` is called with the slot held."""
        delivery.resume = resume
        self.ready.appendleft(delivery)
        self.start_ready()

    def cancel_retry(self, delivery: Delivery) -> None:
        """Withdraw a request for a slot that `retry` made."""
        if delivery.resume is not None:
            delivery.resume = None
            self.ready.remove(delivery)

    def done(self, delivery: Delivery) -> None:
        """The attempt has ended and the delivery is settled: both steps of the happy path in one call."""
        if self.score:
            self.score = score(self.score, True)
        self.in_flight -= 1
        delivery.partition.in_flight -= 1
        self.settle(delivery)

    def settle(self, delivery: Delivery) -> None:
        """The delivery is settled and holds no slot: update the offset tracker and start the next one of its lane."""
        delivery.state = _SETTLED
        partition = delivery.partition
        partition.started -= 1
        partition.released += 1
        partition.released_bytes += delivery.size
        self.started.discard(delivery)
        self.settled += 1
        partition.tracker.settle(delivery.offset)
        lane = delivery.lane
        if lane is not NO_LANE and not (partition.shared and self._still_shared(partition, lane)):
            behind = partition.lanes[lane]
            if behind:
                following = behind.popleft()
                following.state = _READY
                self.ready.append(following)
            else:
                del partition.lanes[lane]
        if partition.out_of_span:
            self._admit_beyond(partition)
        if partition.over_limit:  # one has ended, so one may start; the others follow as more end
            waited = partition.over_limit.popleft()
            waited.state = _READY
            self.ready.append(waited)
        if self.ready:
            self.start_ready()

    @staticmethod
    def _still_shared(partition: PartitionState, lane: bytes) -> bool:
        """Count down the started deliveries of a lane that has several. True while others are left.

        Normally a lane has one. Only `reorder` can put several started deliveries into one lane, and then the lane
        must not continue before the last of them is settled.
        """
        others = partition.shared.pop(lane, 0)
        if others > 1:
            partition.shared[lane] = others - 1
        return others > 0

    def _admit_beyond(self, partition: PartitionState) -> None:
        out_of_span, tracker = partition.out_of_span, partition.tracker
        while out_of_span and tracker.fits(out_of_span[0].offset):
            self._admit(partition, out_of_span.popleft())

    def _filter_out(self, delivery: Delivery) -> None:
        partition = delivery.partition
        delivery.state = _SETTLED
        partition.released += 1
        partition.released_bytes += delivery.size
        partition.tracker.settle(delivery.offset)

    @staticmethod
    def _release(delivery: Delivery) -> None:
        delivery.state = _ABANDONED
        partition = delivery.partition
        partition.released += 1
        partition.released_bytes += delivery.size

    def close(self, partitions: Iterable[PartitionState]) -> None:
        """Start nothing more of these partitions. What is under way may still be settled, and may need another slot for
        that."""
        for partition in partitions:
            partition.open = False
            for queue in (partition.out_of_span, partition.over_limit, *partition.lanes.values()):
                if queue:
                    _abandon(queue)
                    queue.clear()
        _abandon(delivery for delivery in self.ready if not delivery.partition.open and delivery.resume is None)
        self.ready = deque(
            delivery for delivery in self.ready if delivery.partition.open or delivery.resume is not None
        )

    def abandon(self, delivery: Delivery) -> None:
        """A started record (it holds no slot) is left unsettled: its partition has gone to another owner."""
        delivery.state = _ABANDONED
        self.started.discard(delivery)

    def reorder(self, order: DeliveryOrder, partitions: Iterable[PartitionState]) -> None:
        """Change the order, or apply a new `passes`: waiting deliveries are judged again, get new lanes, and wait for
        everything that is started in their lane."""
        self.order = order
        # 1. Collect everything of the open partitions that is not started, from all places where it may wait.
        waiting: dict[PartitionState, list[Delivery]] = {
            p: [*p.out_of_span, *p.over_limit] for p in partitions if p.open
        }
        for partition, records in waiting.items():
            for behind in partition.lanes.values():
                records.extend(behind or ())
            partition.lanes.clear()
            partition.shared.clear()
            partition.out_of_span.clear()
            partition.over_limit.clear()
        # Retries stay in `ready`: they are started deliveries that ask for a slot, not new ones.
        retrying = [delivery for delivery in self.ready if delivery.resume is not None]
        for delivery in self.ready:
            if delivery.resume is None and delivery.partition in waiting:
                waiting[delivery.partition].append(delivery)
        self.ready = deque(retrying)
        # 2. Started deliveries take their new lanes first, so that the waiting ones queue behind them.
        self._assign_lanes()
        # 3. Admit the waiting ones in offset order, whatever their old lanes were.
        for partition, records in waiting.items():
            for delivery in sorted(records, key=lambda r: r.offset):
                if delivery.state is _READY:
                    delivery.state = _QUEUED
                self._admit_as_fits(partition, delivery)
            self._admit_beyond(partition)
        self.start_ready()

    def _assign_lanes(self) -> None:
        """Give each started delivery its new lane. Several may share one: `shared` counts those beyond the first."""
        for delivery in self.started:
            partition = delivery.partition
            if self.order is DeliveryOrder.ORDERED:
                delivery.lane = WHOLE
            elif self.order is DeliveryOrder.KEY_ORDERED and delivery.key is not None:
                delivery.lane = delivery.key
            else:
                delivery.lane = NO_LANE
                continue
            if delivery.lane in partition.lanes:
                partition.shared[delivery.lane] = partition.shared.get(delivery.lane, 0) + 1
            else:
                partition.lanes[delivery.lane] = None


def _abandon(deliveries: Iterable[Delivery]) -> None:
    for delivery in deliveries:
        delivery.state = _ABANDONED
