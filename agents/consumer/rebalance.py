"""Follows the group's rebalances: partitions are assigned, revoked with a last commit, or lost without one.

    assigned:  committed offset + metadata -> PartitionState -> opened() on the loop -> only then fetching begins
    revoked:   drain() on the loop -> last commit -> released
    lost:      drain() on the loop, briefly -> dropped without a commit; what is settled is remembered

A partition that comes back continues where this process left it (`agents/consumer/lost_partitions`). When Kafka did not
answer for a while, probably every member has lost its partitions, and each knows offsets that are not committed. Not
every member can see this: one that is new, or that had no partitions, only finds that its join took long.

    member A   assigned {0, 1}, had {0, 2}   commits what it knows of 2      opens 0 at once, 1 after HANDOVER_S
    member B   assigned {2, 3}, had {1, 3}   commits what it knows of 1      opens 3 at once, 2 after HANDOVER_S

Any member of the current generation may commit for any partition of the group. The wait costs time only. A member that
commits too late costs duplicates, as a crash does.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from agents.config import DeliveryConfig
from agents.consumer.backpressure import Backpressure
from agents.consumer.commits import Commits, commit_now, offsets
from agents.consumer.group_consumer import GroupConsumer
from agents.consumer.lost_partitions import LostPartitions, handed_over
from agents.consumer.membership import JoinWatch
from agents.consumer.start_offsets import committed_offsets, log_start
from agents.ordering.partition import PartitionState
from knative.contract.records import Subscription
from knative.ports import Observe
from tables.kafka.admin.answers import metadata_of
from tables.kafka.loop_thread import LOOP_S, LoopThread

log = structlog.get_logger(__name__)

_LOST_DRAIN_S = 0.5  # for answers that are on their way; the next owner may have started already
_HANDOVER_LIMIT_S = 2.0


class RebalanceListener(Protocol):
    """Called on the event loop."""

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions were assigned; records of them follow."""

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more and wait up to `limit_s` for what is in flight. Nothing of them changes afterwards."""

    def dropped(self, partitions: Sequence[PartitionState]) -> None:
        """Abandon these partitions at once."""


class Rebalance:
    """The assignment of one subscription, over all its clients. Consumer's thread only, except for reading
    `partitions` and `counts`, and for `stop_drain_s`."""

    def __init__(
        self,
        subscription: Subscription,
        config: DeliveryConfig,
        listener: RebalanceListener,
        commits: Commits,
        backpressure: Backpressure,
        thread: LoopThread,
        observe: Observe,
    ) -> None:
        self.partitions: dict[int, PartitionState] = {}
        self.counts = {"assigned": 0, "revoked": 0, "lost": 0}  #: number of each
        self._topic = subscription.topic
        self._label = subscription.label
        self._config = config
        self._listener = listener
        self._commits = commits
        self._backpressure = backpressure
        self._thread = thread
        self._observe = observe
        self._stop = thread.stopping
        self._lost = LostPartitions()
        self._deferred: dict[int, TopicPartition] = {}  # assigned, to be opened when the hand-over is over
        self.stop_drain_s = math.inf  #: the limit of a drain, once the thread is to stop
        self.stuck = False  #: the client cannot rejoin its group for minutes; a new client must replace it
        self._join_watch = JoinWatch(config.group_protocol, config.session_timeout_s, config.join_limit_s)

    def owner(self, number: int | None) -> object:
        """What stands for the present assignment of a partition; None if there is none."""
        return self.partitions.get(number) if number is not None else None

    def begin(self, consumer: GroupConsumer) -> None:
        """Join the group with a new client, which owns nothing yet. The previous one may still be closing."""
        self.partitions = {}
        self._deferred = {}
        self.stuck = False
        self._join_watch.joining(time.monotonic())
        self._thread.call(self._commits.attach, self.partitions)
        consumer.follow(self._topic, self._on_assign, self._on_revoke, self._on_lost)

    # -- callbacks of the client, inside poll()

    def _on_assign(self, consumer: GroupConsumer, assigned: list[TopicPartition]) -> None:
        """Open the partitions that this process knows best; defer those of which other members may know more."""
        if consumer.expelled_idle:
            self._join_watch.expelled()
        handover = self._lost.joining
        self._join_watch.joined(time.monotonic(), handover=handover)
        if handover and self._hand_over(consumer, self._lost.joined([where.partition for where in assigned])):
            self._lost.handed_over()  # else it is tried again with the next assignment
        if not assigned:
            return
        self.counts["assigned"] += 1
        if time.monotonic() < self._join_watch.handover_until:
            self._defer(consumer, [where for where in assigned if not self._lost.knows(where.partition)])
        self._open(consumer, [where for where in assigned if where.partition not in self._deferred])

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        """Drain, commit and release."""
        self._forget_deferred(consumer, revoked)
        mine = [self.partitions[where.partition] for where in revoked if where.partition in self.partitions]
        self.release(consumer, mine, self._config.revoke_drain_s)
        self._join_watch.revoked()
        if mine:
            self.counts["revoked"] += 1
            log.info("partitions revoked", subscription=self._label, partitions=[p.number for p in mine])

    def _on_lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """Others may own them already: no commit, and only a short wait for answers that are on their way."""
        self.counts["lost"] += 1
        self._join_watch.expelled()
        self._join_watch.joining(time.monotonic())
        self._forget_deferred(consumer, lost)
        silent = self._commits.silent  # while it owns them: then there is something to be confirmed
        mine = [self.partitions.pop(where.partition) for where in lost if where.partition in self.partitions]
        for partition in mine:
            self._backpressure.forget(consumer, partition)
        self._thread.begin(self._listener.drain(mine, _LOST_DRAIN_S)).result(LOOP_S)
        self._lost.keep(mine, hand_over=silent or self._commits.silent)
        # librdkafka unassigns, and so rejoins, only when the commit in flight has failed. With its retries that takes
        # minutes.
        self.stuck = self._commits.in_flight
        # Only after the drain: it ends `waiting`, and first attempts would start again.
        self._thread.call(self._commits.forget)
        log.warning("partitions lost", subscription=self._label, partitions=[p.number for p in mine])

    # -- called by the consumer between two polls

    def check_joined(self, now: float) -> None:
        """Give up a client that cannot join its group. `now`: monotonic seconds."""
        if self._join_watch.failed(now):
            log.warning("the client has not joined its group; a new one replaces it", subscription=self._label)
            self._join_watch.expelled()
            self.stuck = True

    def open_deferred(self, consumer: Consumer, now: float) -> None:
        """Open the deferred partitions if they are due; `now`: monotonic seconds."""
        if self._join_watch.rests(now):
            self._lost.rest()
        if not self._deferred or now < self._join_watch.handover_until:
            return
        due = list(self._deferred.values())
        self._deferred.clear()
        # Assigned and paused so far. `_open` assigns them again, at the offset that is committed by now.
        consumer.resume(due)
        consumer.incremental_unassign(due)
        self._open(consumer, due)

    def read_from(self, consumer: Consumer, partition: PartitionState, offset: int) -> None:
        """Assign the partition again at `offset`: the client cannot seek after an out-of-range error."""
        self._backpressure.forget(consumer, partition)
        where = TopicPartition(partition.topic, partition.number, offset)
        consumer.incremental_unassign([where])
        consumer.incremental_assign([where])

    def release(
        self, consumer: Consumer, partitions: list[PartitionState], limit_s: float, drained: asyncio.Event | None = None
    ) -> None:
        """Drain for up to `limit_s`, then commit. At a stop, sets `drained` before the last commit."""
        if partitions:
            self._drain(consumer, partitions, limit_s)
        if drained is not None and self._stop.is_set():
            self._thread.call_soon(drained.set)
        silent = self._commits.silent
        for partition in partitions:
            self.partitions.pop(partition.number, None)
            self._backpressure.forget(consumer, partition)
        # Removed from `partitions` before the commit: a request for a commit that is still waiting is then not sent.
        refused = commit_now(consumer, self._thread.call(offsets, partitions), self._label)
        left = [partition for partition in partitions if partition.number in refused]
        self._lost.keep(left, hand_over=silent or self._commits.silent)

    def client_failed(self) -> None:
        """For the next client it is as after a loss, also if this one owned nothing."""
        self._join_watch.expelled()

    def drop(self) -> None:
        """The client failed: treat all its partitions as lost."""
        left = list(self.partitions.values())
        silent = self._commits.silent
        self.partitions.clear()
        if left:
            self._thread.call(self._listener.dropped, left)
            self._lost.keep(left, hand_over=silent)

    # -- steps

    def _open(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        if not assigned:
            return
        opened = []
        for found in committed_offsets(consumer, assigned, self._stop):
            start, is_committed = found.offset, found.offset >= 0
            if not is_committed:
                low, high = consumer.get_watermark_offsets(found, timeout=10.0)
                start = log_start(self._label, found.partition, low, high, self._observe)
            partition = self._lost.opened(found.topic, found.partition, start, metadata_of(found))
            if not is_committed:  # who asks Kafka for the lag would count an event in a partition without one
                partition.tracker.changes += 1
            opened.append(partition)
        # The loop must know the partitions before the client can fetch their records, hence the order of these calls.
        self._thread.call(self._listener.opened, opened)
        self.partitions.update((p.number, p) for p in opened)
        if any(p.tracker.changes for p in opened):  # it knows more than Kafka: commit that
            self._thread.call(self._commits.schedule_commit)
        consumer.incremental_assign([TopicPartition(p.topic, p.number, p.tracker.committable) for p in opened])
        log.info("partitions assigned", subscription=self._label, partitions=[p.number for p in opened])

    def _defer(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Assign them paused: the client requires an assignment within the callback."""
        if not assigned:
            return
        self._deferred.update((where.partition, TopicPartition(where.topic, where.partition)) for where in assigned)
        found = committed_offsets(consumer, assigned, self._stop)
        # Any valid offset will do, because they are paused and assigned again when they open. Without a committed one
        # the offset is negative, and would be an error.
        consumer.incremental_assign(
            [TopicPartition(where.topic, where.partition, max(where.offset, 0)) for where in found]
        )
        consumer.pause(assigned)

    def _forget_deferred(self, consumer: Consumer, going: Collection[TopicPartition]) -> None:
        """Resume them while they are assigned: the client keeps the pause over all later assignments."""
        gone = [where for where in going if self._deferred.pop(where.partition, None) is not None]
        if gone:
            consumer.resume(gone)

    def _hand_over(self, consumer: Consumer, partitions: list[PartitionState]) -> bool:
        """Commit what this process knows of partitions that others own now, unless others have committed since. False:
        that has failed."""
        if not partitions:
            return True
        try:
            committed = consumer.committed(
                [TopicPartition(p.topic, p.number) for p in partitions], timeout=_HANDOVER_LIMIT_S
            )
        except KafkaException as problem:
            log.warning("offsets were not handed over", subscription=self._label, reason=problem.args[0].str())
            return False
        wanted = []
        for partition, found in zip(partitions, committed, strict=True):
            known = handed_over(partition, found.offset, metadata_of(found)) if found.error is None else None
            if known is not None:
                wanted.append(TopicPartition(partition.topic, partition.number, known.committable, known.metadata()))
        refused = commit_now(consumer, wanted, self._label)
        done = [w.partition for w in wanted if w.partition not in refused]
        log.info("offsets handed over", subscription=self._label, partitions=done)
        return not refused and all(found.error is None for found in committed)

    def _drain(self, consumer: Consumer, partitions: list[PartitionState], limit_s: float) -> None:
        """Drain these partitions. Commits continue meanwhile, for them and for those that stay. A stop that comes
        meanwhile has its own limit."""
        until = time.monotonic() + limit_s
        # This thread is inside poll() and gets no commit callbacks, so it sends commits itself and waits for each.
        self._thread.call(self._commits.give_up_flight)
        work = self._thread.begin(self._listener.drain(partitions, limit_s))
        while True:
            try:
                return work.result(self._config.commit_interval_s)
            except TimeoutError:
                if work.done():  # in the moment in which the wait ended, or by a TimeoutError of its own
                    return work.result()
                if time.monotonic() > until + LOOP_S:
                    raise
            sooner = time.monotonic() + self.stop_drain_s
            if self._stop.is_set() and sooner < until and work.cancel():
                until, work = sooner, self._thread.begin(self._listener.drain(partitions, self.stop_drain_s))
            self._commits.send_requested(consumer, wait=True)
