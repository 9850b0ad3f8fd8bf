"""Reads one subscription's topic: a librdkafka consumer in its consumer group, in a thread of its own.

    thread:  poll -> records by partition -> hand over (bounded in bytes, records and batches)
                 assigned, revoked, lost: `agents/consumer/rebalance`

A `PartitionState` and its offset tracker exist before the first record can be fetched, and a batch carries its
partition. A record of an unknown partition is an error and ends the process; it is never skipped. Without a committed
offset (retention, an expired group) the consumer starts at the beginning of the log and logs a warning. An offset
beyond the end stops the partition with an error. Does not jump to the end of the log, which would lose events silently.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.bounded_wait import at_most
from agents.config import DeliveryConfig
from agents.consumer.backpressure import Backpressure
from agents.consumer.commits import Commits
from agents.consumer.fetch import Fetcher
from agents.consumer.group_consumer import GroupConsumer
from agents.consumer.log_end_offsets import LogEndOffsets, read_to_end, skip_to_end
from agents.consumer.membership import instance_id, is_fatal, run_sessions
from agents.consumer.memory_budget import record_bytes
from agents.consumer.rebalance import Rebalance, RebalanceListener
from agents.consumer.settings import consumer_settings
from agents.consumer.stall_detector import StallDetector
from agents.ordering.partition import Batch, Delivery, PartitionState
from knative.cloudevents.record_headers import record_headers
from knative.contract.records import Subscription
from knative.ports import Observe
from tables.kafka.loop_thread import LOOP_S, LoopThread

log = structlog.get_logger(__name__)

_POLL_S = 0.25  # at rest
_BUSY_POLL_S = 0.03  # while a commit is due or may become due: a retry waits for it
_PAUSED_POLL_S = 0.01  # while partitions are paused
_LEAVE_S = 4.0  # at stop: for the last commit and for leaving the group, and again for a call that is under way


class ConsumerListener(RebalanceListener, Protocol):
    """Called on the event loop."""

    def enqueue(self, batches: list[Batch]) -> None:
        """Fetched records, in order. Call `SubscriptionConsumer.batches_enqueued` once per call, when the scheduler has
        them."""

    def waiting_for_kafka(self, waiting: bool) -> None:
        """True: Kafka confirms no commits, so start nothing new. False: it does again."""

    def failing(self) -> None:
        """A partition has been stopped."""

    def fatal(self, problem: BaseException) -> None:
        """The thread cannot continue."""


class SubscriptionConsumer:
    """The thread and the Kafka client of one subscription."""

    def __init__(
        self, subscription: Subscription, config: DeliveryConfig, owner: ConsumerListener, observe: Observe
    ) -> None:
        self.subscription = subscription
        # Also a part of the member name, for which Kafka allows the characters of topic names only; names have no `_`.
        name = subscription.unique_name.replace(":", "_")
        self.client_name = f"{config.instance}-{subscription.namespace}-{name}"
        #: The static member name in the group. A client that replaces another keeps it, but not after a fatal error.
        self.instance_id = instance_id(self.client_name)
        self._config = config
        self._listener = owner
        self._observe = observe
        self._thread = LoopThread(self._run, f"consumer-{subscription.label}", owner.fatal)
        self._stop = self._thread.stopping
        self.commits = Commits(
            subscription.label,
            config.commit_interval_s,
            owner.fatal,
            timeout_s=config.commit_timeout_s,
            waiting=owner.waiting_for_kafka,
        )
        self._log_end_offsets, self._stall_detector = LogEndOffsets(), StallDetector()
        self._backpressure = Backpressure(config.buffer_bytes_max, self._stop)
        self._rebalance = Rebalance(
            subscription, config, owner, self.commits, self._backpressure, self._thread, observe
        )
        self._drained = asyncio.Event()
        self._fetcher = Fetcher(self._rebalance.owner)
        self._drain_s = 0.0
        self._fatal: KafkaError | None = None  # the client can never be used again
        self._session_now = object()
        self._halted = ""  # why its partitions must not be served; "" = they may be
        self._polled_at = time.monotonic()

    # -- event loop

    def start(self) -> None:
        """Join the group. Returns at once."""
        self._thread.start()

    async def stop(self, drain_s: float) -> None:
        """Drain, commit and leave the group, in `drain_s` plus some seconds before and after it. If Kafka does not
        answer in that time, the thread is left behind, so that it does not hold up the end of the process."""
        self._rebalance.stop_drain_s = self._drain_s = drain_s
        self._stop.set()
        if not self._thread.started:
            return
        await at_most(self._drained.wait(), drain_s + _LEAVE_S)
        if not await self._thread.stop(_LEAVE_S):
            log.error("the consumer did not stop in time", subscription=self.subscription.label)

    def halt(self, reason: str) -> None:
        """Stop serving all partitions, also those assigned later, and report the reason."""
        self._halted = reason

    @property
    def partitions(self) -> list[PartitionState]:
        """The partitions that it owns now."""
        return list(self._rebalance.partitions.values())

    @property
    def rebalances(self) -> Mapping[str, int]:
        """How often partitions were assigned, revoked and lost."""
        return self._rebalance.counts

    @property
    def poll_age_s(self) -> float:
        """Seconds since the thread last polled. Grows only while a call to Kafka blocks it."""
        return time.monotonic() - self._polled_at

    def batches_enqueued(self) -> None:
        """The scheduler has the batches of one `enqueue`."""
        self._backpressure.batches_enqueued()

    # -- thread

    def _run(self) -> None:
        try:
            run_sessions(self._session, self._stop, self._failed)
        finally:
            self._thread.call_soon(self._drained.set)

    def _failed(self, problem: Exception, fatal: bool) -> None:
        log.warning("consumer failed; joining again", subscription=self.subscription.label, reason=str(problem))
        self._rebalance.client_failed()
        if fatal:
            self.instance_id = instance_id(self.client_name)

    def _session(self) -> None:
        self._polled_at = time.monotonic()
        self._session_now = session = object()
        settings = consumer_settings(self._config, self.subscription.group, self.client_name, self.instance_id)
        settings |= {"on_commit": self.commits.on_commit, "error_cb": partial(self._on_error, session)}
        consumer = GroupConsumer(settings)
        self._fatal = None
        rebalance = self._rebalance
        self._backpressure.begin()
        rebalance.begin(consumer)
        self._fetcher.begin()
        try:
            while not (self._stop.is_set() or rebalance.stuck):
                self._check_fatal()
                self._polled_at = time.monotonic()
                self.commits.send_requested(consumer)  # here, because only this thread may use the client
                owned = rebalance.partitions.values()
                if self._halted:
                    self._fail(consumer, owned, self._halted)
                self._watch(consumer, time.monotonic())
                busy = self.commits.wanted or any(p.in_flight for p in owned)
                wait_s = _BUSY_POLL_S if busy else _POLL_S
                if self._backpressure.throttle(consumer, owned):
                    wait_s = _PAUSED_POLL_S
                messages = self._fetcher.fetch(consumer, wait_s)
                if messages:
                    self._take(consumer, messages)
            if not rebalance.stuck:
                rebalance.release(consumer, list(rebalance.partitions.values()), self._drain_s, self._drained)
                consumer.leave()
        finally:
            rebalance.drop()  # the partitions that an exception has left open
            hangs = rebalance.stuck or self.commits.in_flight
            self._thread.call(self.commits.detach)
            consumer.end(at_once=not hangs)

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _watch(self, consumer: Consumer, now: float) -> None:
        self._rebalance.open_deferred(consumer, now)
        self._rebalance.check_joined(now)
        partitions = self._rebalance.partitions.values()
        self._log_end_offsets.refresh(consumer, partitions, now)
        # Only then is it certain that no record below the end is still on its way to the scheduler.
        if self._backpressure.all_enqueued:
            for partition in read_to_end(partitions):
                self._thread.call(skip_to_end, partition)
                self._thread.call(self.commits.schedule_commit)
        for stalled in self._stall_detector.stalled(partitions, self._backpressure.budget.paused, now):
            log.warning(
                "partition returns no records although its log has more; assigning it again",
                subscription=self.subscription.label,
                partition=stalled.number,
                offset=stalled.tracker.fetched,
                end=stalled.log_end_offset,
            )
            self._rebalance.read_from(consumer, stalled, stalled.tracker.fetched)

    def _take(self, consumer: Consumer, messages: list[Message]) -> None:
        batches: dict[int, Batch] = {}
        errors: list[tuple[Message, KafkaError]] = []
        partitions = self._rebalance.partitions
        total = 0
        # The hot path of the thread: one loop, and no call per record that can be avoided.
        for message in messages:
            error = message.error()
            if error is not None:
                errors.append((message, error))  # handled after the records that came before it
                continue
            number: int = message.partition()  # type: ignore[assignment]  # records have one
            batch = batches.get(number)
            if batch is None:
                batches[number] = batch = (partitions[number], [], 0)
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
            for number, (_, records, _) in batches.items():
                self._observe.consumed(self.client_name, topic, number, len(records))
            self._backpressure.handed(total)
            # Counted before it is handed over: `batches_enqueued` may run at once, and must not be ahead.
            self._thread.call_soon(self._listener.enqueue, list(batches.values()))
        for message, error in errors:
            self._on_message_error(consumer, message, error)

    def _on_error(self, session: object, error: KafkaError) -> None:
        if session is not self._session_now:  # of a former client, which is still closing
            return
        if is_fatal(error):  # only reported here; no call raises it
            self._fatal = error
        elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            log.warning("the Kafka consumer reports an error", subscription=self.subscription.label, reason=error.str())

    def _on_message_error(self, consumer: Consumer, message: Message, error: KafkaError) -> None:
        number = message.partition()
        partition = self._rebalance.partitions.get(number) if number is not None else None
        if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._out_of_range(consumer, partition)
        elif error.code() == KafkaError._PARTITION_EOF:
            if partition is not None:  # None: lost meanwhile
                partition.reached = message.offset() or 0
        elif is_fatal(error) or error.code() == KafkaError._MAX_POLL_EXCEEDED:
            raise KafkaException(error)
        else:
            log.warning("the Kafka consumer reports an error", subscription=self.subscription.label, reason=error.str())

    def _out_of_range(self, consumer: Consumer, partition: PartitionState) -> None:
        """The offset is not in the log: below its start (retention) or beyond its end (the topic was created again)."""
        until = time.monotonic() + LOOP_S
        while not self._backpressure.all_enqueued:  # deliver what was fetched before
            if self._stop.wait(0.001):
                return
            if time.monotonic() > until:
                raise TimeoutError("the agent did not take the fetched records from its channel")
        where = TopicPartition(partition.topic, partition.number)
        low, high = consumer.get_watermark_offsets(where, timeout=10)
        at = partition.tracker.fetched
        if low <= at <= high:  # in range by now: the error was temporary
            self._rebalance.read_from(consumer, partition, at)
        elif at < low:
            log.warning(
                "records expired before they were read",
                subscription=self.subscription.label,
                partition=partition.number,
                count=low - at,
            )
            self._observe.expired(self.subscription.label, low - at)
            self._thread.call(partition.tracker.skip_to, low)
            self._thread.call(self.commits.schedule_commit)
            self._rebalance.read_from(consumer, partition, low)
        else:
            self._fail(
                consumer, [partition], f"offset {at} is beyond the end {high}: the topic was created again or truncated"
            )

    def _fail(self, consumer: Consumer, partitions: Collection[PartitionState], reason: str) -> None:
        """Stop serving these partitions, although it owns them; the status reports the reason."""
        for partition in [one for one in partitions if not one.failure]:
            partition.failure = reason
            log.error(
                "partition stopped",
                subscription=self.subscription.label,
                partition=partition.number,
                reason=reason,
                hint="delete the Subscription and add it again, "
                "with penstock.dev/start: earliest to get all events that the topic has now",
            )
            self._backpressure.pause(consumer, partition)
            self._thread.call_soon(self._listener.failing)
