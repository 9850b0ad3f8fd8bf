"""Shows how far one subscription is in this process: its status, its gauges and its statistics. Changes nothing.

A scrape of the metrics calls it from a thread of its own while the event loop runs, so collections are copied in one
step first. Gauges are computed when they are read: updating them with each event would cost time on the happy path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from agents.dispatch.dispatcher import Dispatcher
from agents.listeners.failures import Failures
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from agents.reader.member import Member
from agents.timing import STEADY_S
from knative.contract.records import WorkerState, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionSnapshot, SubscriptionStats
from knative.ports import Clock

_READY_SEEN = 200  # deliveries to look at of those that wait for a slot; the oldest are in front


class SubscriptionView:
    """The view of one subscription. Event loop only, except for `snapshot`."""

    def __init__(self, dispatcher: Dispatcher, member: Member, failures: Failures, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._scheduler = dispatcher.scheduler
        self._member = member
        self._failures = failures
        self._clock = clock
        self._rate = Rate()

    @property
    def poll_age_s(self) -> float:
        """Seconds since its reader last polled."""
        return self._member.poll_age_s

    def status(self) -> WorkerSubscription:
        """Returns the status of this subscription in this process, for the status topic."""
        partitions = self._member.partitions
        failures = "; ".join(f"partition {p.number}: {p.failure}" for p in partitions if p.failure)
        if failures:  # outranks a wait for Kafka: it needs an operator, the wait ends by itself
            state = WorkerState.FAILED
        elif self._member.commits.waiting:
            state = WorkerState.WAITING_FOR_KAFKA
        else:
            state = WorkerState.RUNNING if partitions else WorkerState.STARTING
        owned = tuple(sorted(p.number for p in partitions if not p.failure))
        dispatcher = self._dispatcher
        return WorkerSubscription(dispatcher.subscription.generation, owned, state, failures, dispatcher.filter_problem)

    def snapshot(self) -> SubscriptionSnapshot:
        """Returns current values for the metrics. May be called from any thread."""
        partitions = self._member.partitions
        return SubscriptionSnapshot(
            subscription=self._dispatcher.subscription.label,
            partitions=len(partitions),
            in_flight=self._scheduler.in_flight,
            retrying=self._failures.retrying,
            lag=lag(partitions),
            oldest=oldest(self._scheduler),
            lanes=lanes(partitions),
            buffered_bytes=buffered_bytes(partitions),
            waiting_for_kafka=self._member.commits.waiting,
            commits=self._member.commits.count,
            commits_failed=self._member.commits.failures,
            rebalances=tuple(self._member.rebalances.items()),
            throttled=self._scheduler.throttled,
        )

    def stats(self) -> SubscriptionStats:
        """Returns statistics for the status topic. The rate is over the calls of the last minute."""
        partitions, failures = self._member.partitions, self._failures
        delivered = self._scheduler.settled - failures.not_delivered
        committed = self._member.confirmed
        return SubscriptionStats(
            in_flight=self._scheduler.in_flight,
            retrying=failures.retrying,
            lag=lag(partitions),
            oldest=oldest(self._scheduler),
            delivered_per_s=round(self._rate.per_s(delivered, self._clock.monotonic()), 3),
            heads=failures.failing(),
            last_error=failures.last_error,
            throttled=self._scheduler.throttled,
            committed=committed,
            offsets_of=self._dispatcher.subscription.offsets_of if committed else "",
        )


def lag(partitions: Iterable[PartitionState]) -> int:
    """Returns the unsettled events up to the log end offsets; 0 for a partition whose log end offset is not known."""
    return sum(
        max(0, max(p.log_end_offset, p.tracker.fetched) - p.tracker.committable)
        for p in partitions
        if p.log_end_offset >= 0
    )


def lanes(partitions: Iterable[PartitionState]) -> int:
    """Returns the number of lanes that hold a delivery."""
    return sum(len(p.lanes) for p in partitions)


def buffered_bytes(partitions: Iterable[PartitionState]) -> int:
    """Returns the size of the records in memory, in bytes."""
    return sum(p.held_bytes for p in partitions)


def oldest(scheduler: Scheduler) -> float:
    """Returns the Unix time at which the oldest event that is started or next was stored; 0 = there is none."""
    waiting: Sequence[Delivery] = list(scheduler.started)
    stamps = [delivery.timestamp_ms for delivery in (*waiting, *islice(scheduler.ready.copy(), _READY_SEEN))]
    return min((stamp for stamp in stamps if stamp > 0), default=0) / 1000


class Rate:
    """Events per second over the last minute, from samples of a counter."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []  # of three with the same count, the first and the last

    def per_s(self, count: int, now: float) -> float:
        """`count`: events so far; `now`: monotonic seconds. In the first minute the rate is since the first call."""
        samples = self._samples
        if len(samples) > 1 and samples[-1][1] == samples[-2][1] == count:
            samples.pop()
        samples.append((now, count))
        while len(samples) > 1 and samples[1][0] <= now - STEADY_S:
            del samples[0]
        began, before = samples[0]
        if len(samples) > 1 and samples[1][1] == before:  # nothing was between the two
            began = max(began, now - STEADY_S)
        return (count - before) / (now - began) if now > began else 0.0
