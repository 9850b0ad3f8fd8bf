"""The partitions that one consumer owns: assigned, revoked with a last commit, or lost without one.

    assigned:  committed offset + metadata -> Partition -> opened() on the loop -> only then fetching begins
    revoked:   drain() on the loop -> last commit -> let go
    lost:      drain() on the loop, briefly -> let go without a commit; what is settled is retained

A partition that comes back goes on where this process left it (`agents/consumer/retained`). When Kafka did not answer,
every member of the group has probably lost its partitions, and each knows something that is not committed:

    member A   assigned {0, 1}, had {0, 2}   commits what it knows of 2      opens 0 at once, 1 after HANDOVER_S
    member B   assigned {2, 3}, had {1, 3}   commits what it knows of 1      opens 3 at once, 2 after HANDOVER_S

Any member of the current generation may commit for any partition of the group. Waiting costs time and no event; a
member that comes too late costs duplicates, as a crash does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Sequence
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from agents.config import DeliveryConfig
from agents.consumer.backpressure import Backpressure
from agents.consumer.commits import Commits, commit_now, offsets
from agents.consumer.loop_bridge import LOOP_S, LoopBridge
from agents.consumer.retained import RetainedOffsets, resumed
from agents.consumer.start_offsets import committed_offsets, log_start
from agents.ordering.offset_metadata import read
from agents.ordering.partition import PartitionState
from knative.contract.records import Subscription
from knative.ports import Observe

log = structlog.get_logger(__name__)

HANDOVER_S = 3.0  #: for the others to join again and to commit what they know; a heartbeat tells them within 1.2 s
_LOST_DRAIN_S = 0.5  # for answers that are on their way; the next owner may be at work already
_HANDOVER_LIMIT_S = 2.0


class RebalanceListener(Protocol):
    """Called on the event loop."""

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions were assigned; records of them follow."""

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more, wait for what is in flight, at most `limit_s`; afterwards nothing of them changes."""

    def dropped(self, partitions: Sequence[PartitionState]) -> None:
        """Let go of partitions at once."""


class Rebalance:
    """Of one subscription, over all its consumers. The consumer's thread only, but for reading `partitions`."""

    def __init__(
        self,
        subscription: Subscription,
        config: DeliveryConfig,
        listener: RebalanceListener,
        commits: Commits,
        backpressure: Backpressure,
        bridge: LoopBridge,
        observe: Observe,
        stop: threading.Event,
    ) -> None:
        self.partitions: dict[int, PartitionState] = {}
        self.counts = {"assigned": 0, "revoked": 0, "lost": 0}  #: how often
        self._topic = subscription.topic
        self._label = subscription.label
        self._config = config
        self._listener = listener
        self._commits = commits
        self._backpressure = backpressure
        self._bridge = bridge
        self._observe = observe
        self._stop = stop
        self._retained = RetainedOffsets()
        self._deferred: dict[int, tuple[TopicPartition, float]] = {}  # assigned, opened at that monotonic time
        self._consumer: Consumer | None = None
        self.stuck = False  #: the client will not join its group again for long; another one is to take its place

    def begin(self, consumer: Consumer) -> None:
        """Join the group with a new consumer, which owns nothing yet. The one before may still be closing."""
        self._consumer = consumer
        self.partitions = {}
        self._deferred = {}
        self.stuck = False
        self._bridge.call(self._commits.attach, self.partitions)
        consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    # -- callbacks of the client, inside poll()

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Open what this process knows best; leave what others may know more of for later."""
        if consumer is not self._consumer:
            return
        late: list[TopicPartition] = []
        if self._retained.joining:
            late = [where for where in assigned if not self._retained.knows(where.partition)]
            self._hand_over(consumer, self._retained.joined(where.partition for where in assigned))
        if not assigned:
            return
        self.counts["assigned"] += 1
        if late:
            self._defer(consumer, late)
        self._open(consumer, [where for where in assigned if where.partition not in self._deferred])

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        """Drain, commit, let go."""
        if consumer is not self._consumer:
            return
        self._forget_deferred(consumer, revoked)
        mine = [self.partitions[where.partition] for where in revoked if where.partition in self.partitions]
        self.release(consumer, mine, self._config.revoke_drain_s)
        if mine:
            self.counts["revoked"] += 1
            log.info("partitions revoked", subscription=self._label, partitions=[p.number for p in mine])

    def _on_lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """Others may own them already: no commit, and only a moment for the answers that are on their way."""
        if consumer is not self._consumer:
            return
        self.counts["lost"] += 1
        self._forget_deferred(consumer, lost)
        mine = [self.partitions.pop(where.partition) for where in lost if where.partition in self.partitions]
        for partition in mine:
            self._backpressure.forget(consumer, partition)
        self._bridge.begin(self._listener.drain(mine, _LOST_DRAIN_S)).result(LOOP_S)
        # Where only this process was cut off or frozen, others have been at work since.
        self._retained.keep(mine, hand_over=self._commits.silent)
        # The client unassigns, and so joins again, only when the commit under way has failed: with retries, minutes.
        self.stuck = self._commits.in_flight
        self._bridge.call(self._commits.forget)  # not before: new events of these partitions would no longer wait
        log.warning("partitions lost", subscription=self._label, partitions=[p.number for p in mine])

    # -- from the consumer's turns

    def open_deferred(self, consumer: Consumer, now: float) -> None:
        """Open the deferred partitions whose time has come; `now`: monotonic seconds."""
        due = [where for where, due in self._deferred.values() if due <= now]
        if not due:
            return
        for where in due:
            del self._deferred[where.partition]
        consumer.resume(due)
        consumer.incremental_unassign(due)
        self._open(consumer, due)

    def read_from(self, consumer: Consumer, partition: PartitionState, offset: int) -> None:
        """Assigned again at `offset`: the client cannot seek in a partition whose position was refused."""
        self._backpressure.forget(consumer, partition)
        where = TopicPartition(partition.topic, partition.number, offset)
        consumer.incremental_unassign([where])
        consumer.incremental_assign([where])

    def release(
        self, consumer: Consumer, partitions: list[PartitionState], limit_s: float, drained: asyncio.Event | None = None
    ) -> None:
        """Drain for at most `limit_s`, then commit. `drained` is set before the last commit."""
        if partitions:
            self._drain(consumer, partitions, limit_s)
        if drained is not None:
            self._bridge.notify(drained.set)
        for partition in partitions:
            self.partitions.pop(partition.number, None)
            self._backpressure.forget(consumer, partition)
        refused = commit_now(consumer, self._bridge.call(offsets, partitions), self._label)
        self._retained.keep([partition for partition in partitions if partition.number in refused])

    def drop(self) -> None:
        """The consumer failed: everything is given up as if it had been lost."""
        left = list(self.partitions.values())
        self.partitions.clear()
        if left:
            self._bridge.call(self._listener.dropped, left)
            self._retained.keep(left)

    # -- steps

    def _open(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        if not assigned:
            return
        opened = []
        for found in committed_offsets(consumer, assigned, self._stop):
            start = found.offset
            if start < 0:
                start = log_start(consumer, found, self._label)
                if start:
                    self._observe.expired(self._label, start)
            tracker = self._retained.tracker(found.partition, start, read(start, found.metadata))
            partition = PartitionState(found.topic, found.partition, tracker)
            partition.acknowledged = partition.requested = start
            opened.append(partition)
        self._bridge.call(self._listener.opened, opened)
        self.partitions.update((p.number, p) for p in opened)
        if any(p.tracker.changes for p in opened):
            self._bridge.call(self._commits.schedule_commit)
        consumer.incremental_assign([TopicPartition(p.topic, p.number, p.tracker.committable) for p in opened])
        log.info("partitions assigned", subscription=self._label, partitions=[p.number for p in opened])

    def _defer(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """The client wants to hear within the callback that they were taken: they are, and paused."""
        due = time.monotonic() + HANDOVER_S
        self._deferred.update(
            (where.partition, (TopicPartition(where.topic, where.partition), due)) for where in assigned
        )
        found = committed_offsets(consumer, assigned, self._stop)
        consumer.incremental_assign(
            [TopicPartition(where.topic, where.partition, max(where.offset, 0)) for where in found]
        )
        consumer.pause(assigned)

    def _forget_deferred(self, consumer: Consumer, going: Collection[TopicPartition]) -> None:
        """The client keeps a partition paused over all assignments to come: it is resumed while it is still there."""
        gone = [where for where in going if self._deferred.pop(where.partition, None) is not None]
        if gone:
            consumer.resume(gone)

    def _hand_over(self, consumer: Consumer, partitions: list[PartitionState]) -> None:
        """Commit what is known of partitions that others have now, where nobody has committed since."""
        if not partitions:
            return
        try:
            positions = consumer.committed(
                [TopicPartition(p.topic, p.number) for p in partitions], timeout=_HANDOVER_LIMIT_S
            )
        except KafkaException as problem:
            log.warning("positions were not handed over", subscription=self._label, reason=problem.args[0].str())
            return
        wanted = []
        for partition, found in zip(partitions, positions, strict=True):
            if found.error is None and found.offset in (partition.acknowledged, partition.requested):
                known = read(found.offset, found.metadata)
                mark = resumed(found.offset, known, partition.tracker, partition.acknowledged)
                wanted.append(TopicPartition(partition.topic, partition.number, mark.committable, mark.metadata()))
        commit_now(consumer, wanted, self._label)
        log.info("positions handed over", subscription=self._label, partitions=[w.partition for w in wanted])

    def _drain(self, consumer: Consumer, partitions: list[PartitionState], limit_s: float) -> None:
        """Commits go on meanwhile, of these partitions and of those that stay."""
        until = time.monotonic() + limit_s + LOOP_S
        self._bridge.call(self._commits.give_up_flight)
        work = self._bridge.begin(self._listener.drain(partitions, limit_s))
        while True:
            try:
                return work.result(self._config.commit_interval_s)
            except TimeoutError:
                if work.done() or time.monotonic() > until:
                    raise
            self._commits.send_requested(consumer, wait=True)
