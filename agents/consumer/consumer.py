"""The feed of one subscription: a librdkafka consumer in its group, in a thread of its own.

    thread:  poll -> records by partition -> hand over (bounded in bytes, records and batches)
                 assigned, revoked, lost: `agents/consumer/rebalance`

A partition and its watermark exist before the first record of it can be fetched, and a batch carries its partition: a
record without one is a crash, never a skip. Where no committed offset is left (retention, an expired group), the feed
goes on at the start of the log and says so; an offset beyond the end stops that partition loudly. It never jumps to
the end in silence.

Refuses to know lanes, HTTP and what settling means.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.bounded_wait import at_most
from agents.config import DeliveryConfig
from agents.consumer.backpressure import Backpressure
from agents.consumer.commits import Commits
from agents.consumer.log_end_offsets import LogEndOffsets, read_to_end, skip_to_end
from agents.consumer.loop_bridge import LOOP_S, LoopBridge
from agents.consumer.memory_budget import record_bytes
from agents.consumer.rebalance import Rebalance, RebalanceListener
from agents.consumer.settings import consumer_settings
from agents.consumer.stall_detector import StallDetector
from agents.ordering.partition import Delivery, PartitionState
from knative.cloudevents.record_headers import record_headers
from knative.contract.records import Subscription
from knative.ports import Observe

log = structlog.get_logger(__name__)

Batch = tuple[PartitionState, list[Delivery]]

_POLL_S = 0.25  # at rest
_BUSY_POLL_S = 0.03  # while commits are due, or may be at once: a retry waits for one
_PAUSED_POLL_S = 0.01  # while partitions wait for room
_BATCH = 1000
_ALONE_S = 0.0015  # a record so long after the one before is taken as alone: looking for more would cost as much as it
_MUCH = 100  # after so many records at once more are expected to be there
_STEADY_S = 60.0  # a consumer that failed after this begins again soon
_UNSUBSCRIBE_S = 2.0  # Kafka is not asked for it
_LEAVE_S = 4.0  # at stop: for the last commit and leaving the group, and for a call that was under way before


class ConsumerListener(RebalanceListener, Protocol):
    """Called on the event loop."""

    def enqueue(self, batches: list[Batch]) -> None:
        """Records, in order; call `SubscriptionConsumer.batches_enqueued` once for each call when they are in the
        lanes."""

    def waiting_for_kafka(self, waiting: bool) -> None:
        """Kafka confirms no commits: start nothing new until it does."""

    def failing(self) -> None:
        """A partition has been stopped."""

    def fatal(self, problem: BaseException) -> None:
        """The thread met something it cannot go on from."""


class SubscriptionConsumer:
    """Thread and consumer of one subscription."""

    def __init__(
        self, subscription: Subscription, config: DeliveryConfig, owner: ConsumerListener, observe: Observe
    ) -> None:
        self.subscription = subscription
        self.client_name = f"{config.instance}-{subscription.namespace}-{subscription.name}"
        #: Its name in the group, and of those that replace it.
        self.instance_id = f"{self.client_name}-{uuid.uuid4().hex[:12]}"
        self._config = config
        self._listener = owner
        self._observe = observe
        self._bridge = LoopBridge(asyncio.get_running_loop())
        self.commits = Commits(
            subscription.label,
            config.commit_interval_s,
            owner.fatal,
            timeout_s=config.commit_timeout_s,
            waiting=owner.waiting_for_kafka,
        )
        self._log_end_offsets, self._stall_detector = LogEndOffsets(), StallDetector()
        self._stop = threading.Event()
        self._backpressure = Backpressure(config.buffer_bytes_max, self._stop)
        self._rebalance = Rebalance(
            subscription, config, owner, self.commits, self._backpressure, self._bridge, observe, self._stop
        )
        self._drained, self._ended = asyncio.Event(), asyncio.Event()
        self._much = False  # the last call gave many records: more are expected to be there
        self._last = 0.0  # when the last one came by itself
        self._drain_s = 0.0
        self._fatal: KafkaError | None = None  # the client is unusable for good
        self._halted = ""  # why none of its partitions may be served; "" = they may
        self._polled_at = time.monotonic()
        self._thread = threading.Thread(target=self._guarded, name=f"feed-{subscription.label}", daemon=True)

    # -- event loop

    def start(self) -> None:
        """Join the group; returns at once."""
        self._thread.start()

    async def stop(self, drain_s: float) -> None:
        """Drain, commit, leave the group. Bounded: `drain_s`, and some seconds each before and after it for a Kafka
        that does not answer. The thread is left to itself then: it may not hold up the end of the process."""
        self._drain_s = drain_s
        self._stop.set()
        if self._thread.ident is None:
            return
        await at_most(self._drained.wait(), drain_s + _LEAVE_S)
        await at_most(self._ended.wait(), _LEAVE_S)
        if not self._ended.is_set():
            log.error("the consumer did not stop in time", subscription=self.subscription.label)

    def halt(self, reason: str) -> None:
        """Serve none of its partitions any more, those that come later neither, and say why."""
        self._halted = reason

    @property
    def partitions(self) -> list[PartitionState]:
        """Owned now."""
        return list(self._rebalance.partitions.values())

    @property
    def rebalances(self) -> Mapping[str, int]:
        """How often partitions were assigned, revoked and lost."""
        return self._rebalance.counts

    @property
    def poll_age_s(self) -> float:
        """Seconds since the thread took a turn: small, unless a call to Kafka holds it."""
        return time.monotonic() - self._polled_at

    def batches_enqueued(self) -> None:
        """The batches of one `enqueue` are in the lanes."""
        self._backpressure.batches_enqueued()

    # -- thread

    def _guarded(self) -> None:
        try:
            self._sessions()
        except Exception as problem:  # whatever it is: the owner ends the process
            self._bridge.notify(self._listener.fatal, problem)
        self._bridge.notify(self._drained.set)
        self._bridge.notify(self._ended.set)

    def _sessions(self) -> None:
        wait_s = 1.0
        while not self._stop.is_set():
            began = self._polled_at = time.monotonic()
            try:
                self._session()
            except KafkaException as problem:
                log.warning("consumer failed; joining again", subscription=self.subscription.label, reason=str(problem))
                wait_s = 1.0 if time.monotonic() - began > _STEADY_S else min(wait_s * 2, 10.0)
                self._stop.wait(wait_s)

    def _session(self) -> None:
        settings = consumer_settings(self._config, self.subscription.group, self.client_name, self.instance_id)
        consumer = Consumer({**settings, "on_commit": self.commits.on_commit, "error_cb": self._on_error})
        self._fatal = None
        rebalance = self._rebalance
        self._backpressure.begin()
        rebalance.begin(consumer)
        self._much, self._last = False, 0.0
        try:
            while not (self._stop.is_set() or rebalance.stuck):
                if self._fatal is not None:
                    raise KafkaException(self._fatal)
                self._polled_at = time.monotonic()
                self.commits.send_requested(consumer)
                owned = rebalance.partitions.values()
                if self._halted:
                    self._fail(consumer, owned, self._halted)
                self._look_after(consumer, time.monotonic())
                busy = self.commits.wanted or any(p.in_flight for p in owned)
                wait_s = _BUSY_POLL_S if busy else _POLL_S
                if self._backpressure.throttle(consumer, owned):
                    wait_s = _PAUSED_POLL_S
                messages = self._fetch(consumer, wait_s)
                if messages:
                    self._take(consumer, messages)
            if not rebalance.stuck:
                rebalance.release(consumer, list(rebalance.partitions.values()), self._drain_s, self._drained)
                _leave(consumer)
        finally:
            rebalance.drop()  # what an exception has left
            hangs = rebalance.stuck or self.commits.in_flight
            self._bridge.call(self.commits.detach)
            if hangs:  # it closes when its last commit has failed, which may take minutes
                threading.Thread(target=consumer.close, name=f"closing-{self.client_name}", daemon=True).start()
            else:
                consumer.close()

    def _look_after(self, consumer: Consumer, now: float) -> None:
        self._rebalance.open_deferred(consumer, now)
        partitions = self._rebalance.partitions.values()
        self._log_end_offsets.refresh(consumer, partitions, now)
        if self._backpressure.all_enqueued:
            for partition in read_to_end(partitions):
                self._bridge.call(skip_to_end, partition)
                self._bridge.call(self.commits.schedule_commit)
        for stalled in self._stall_detector.stalled(partitions, self._backpressure.budget.paused, now):
            log.warning(
                "a partition gives nothing although there is more; it is assigned anew",
                subscription=self.subscription.label,
                partition=stalled.number,
                offset=stalled.tracker.fetched,
                end=stalled.log_end_offset,
            )
            self._rebalance.read_from(consumer, stalled, stalled.tracker.fetched)

    def _fetch(self, consumer: Consumer, wait_s: float) -> list[Message]:
        """What there is, or comes within `wait_s`, by as few calls as will do."""
        if self._much:
            ready = consumer.consume(_BATCH, 0)
            self._much = len(ready) >= _MUCH
            if ready:
                return ready
        first = consumer.poll(wait_s)
        if first is None:
            return []
        number = first.partition()
        partitions = self._rebalance.partitions
        owner = partitions.get(number)  # type: ignore[arg-type]  # None: an error of the client's
        now = time.monotonic()
        rest = consumer.consume(_BATCH - 1, 0) if now - self._last < _ALONE_S else []
        self._last, self._much = now, len(rest) >= _MUCH
        # A rebalance inside consume() may have taken its partition away: the next owner reads it again.
        moved = partitions.get(number) is not owner  # type: ignore[arg-type]
        return rest if moved else [first, *rest]

    def _take(self, consumer: Consumer, messages: list[Message]) -> None:
        batches: dict[int, Batch] = {}
        errors: list[tuple[Message, KafkaError]] = []
        partitions = self._rebalance.partitions
        total = 0
        for message in messages:
            error = message.error()
            if error is not None:
                errors.append((message, error))  # after the records that came before it
                continue
            number: int = message.partition()  # type: ignore[assignment]  # records have one
            batch = batches.get(number)
            if batch is None:
                batches[number] = batch = (partitions[number], [])
            value = message.value()
            key = message.key()
            headers = record_headers(message)
            size = record_bytes(key, value, headers)
            partition = batch[0]
            partition.fetched_bytes += size
            partition.fetched_count += 1
            total += size
            offset: int = message.offset()  # type: ignore[assignment]  # likewise
            batch[1].append(Delivery(partition, offset, key, value, headers, size, message.timestamp()[1]))
        if batches:
            topic = self.subscription.topic
            for number, (_, records) in batches.items():
                self._observe.consumed(self.client_name, topic, number, len(records))
            self._backpressure.handed(total)
            self._bridge.notify(self._listener.enqueue, list(batches.values()))
        for message, error in errors:
            self._on_message_error(consumer, message, error)

    def _on_error(self, error: KafkaError) -> None:
        if _is_fatal(error):  # nothing is raised for it
            self._fatal = error
        elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            log.warning("consumer", subscription=self.subscription.label, reason=error.str())

    def _on_message_error(self, consumer: Consumer, message: Message, error: KafkaError) -> None:
        number = message.partition()
        partition = self._rebalance.partitions.get(number) if number is not None else None
        if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._out_of_range(consumer, partition)
        elif error.code() == KafkaError._PARTITION_EOF:
            if partition is not None:  # else it was lost meanwhile
                partition.reached = message.offset() or 0
        elif _is_fatal(error) or error.code() == KafkaError._MAX_POLL_EXCEEDED:
            raise KafkaException(error)
        else:
            log.warning("consumer", subscription=self.subscription.label, reason=error.str())

    def _out_of_range(self, consumer: Consumer, partition: PartitionState) -> None:
        """The position is not in the log: below its start (retention) or beyond its end (topic re-made)."""
        until = time.monotonic() + LOOP_S
        while not self._backpressure.all_enqueued:  # what was fetched before is still delivered
            if self._stop.wait(0.001):
                return
            if time.monotonic() > until:
                raise TimeoutError("records were not taken off the channel")
        where = TopicPartition(partition.topic, partition.number)
        low, high = consumer.get_watermark_offsets(where, timeout=10)
        at = partition.tracker.fetched
        if low <= at <= high:
            self._rebalance.read_from(consumer, partition, at)
        elif at < low:
            log.warning(
                "records expired before they were read",
                subscription=self.subscription.label,
                partition=partition.number,
                count=low - at,
            )
            self._observe.expired(self.subscription.label, low - at)
            self._bridge.call(partition.tracker.skip_to, low)
            self._bridge.call(self.commits.schedule_commit)
            self._rebalance.read_from(consumer, partition, low)
        else:
            self._fail(consumer, [partition], f"offset {at} is beyond the end {high}: the topic was made anew, or cut")

    def _fail(self, consumer: Consumer, partitions: Collection[PartitionState], reason: str) -> None:
        """These are not served any more although owned: the status says so."""
        for partition in [one for one in partitions if not one.failure]:
            partition.failure = reason
            log.error(
                "partition stopped",
                subscription=self.subscription.label,
                partition=partition.number,
                reason=reason,
                cure="delete the Subscription and add it again; with penstock.dev/start: earliest it gets all there is",
            )
            self._backpressure.budget.paused.add(partition.number)
            consumer.pause([TopicPartition(partition.topic, partition.number)])
            self._bridge.notify(self._listener.failing)

    def _read_from(self, consumer: Consumer, partition: PartitionState, offset: int) -> None:
        """Assigned anew at `offset`: a partition whose position was refused cannot be told to seek."""
        self._backpressure.forget(consumer, partition)
        where = TopicPartition(partition.topic, partition.number, offset)
        consumer.incremental_unassign([where])
        consumer.incremental_assign([where])


def _is_fatal(error: KafkaError) -> bool:
    """The client will never work again. A join whose answer was lost is enough: Kafka takes the client that joins again
    for another one with its name, and fences the former. Errors that come as messages do not say that they are fatal.
    """
    return error.fatal() or error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def _leave(consumer: Consumer) -> None:
    """Leave the group at once. A static member that only closes stays in it until its session ends."""
    consumer.unsubscribe()
    until = time.monotonic() + _UNSUBSCRIBE_S
    while consumer.assignment() and time.monotonic() < until:
        consumer.poll(0.02)
