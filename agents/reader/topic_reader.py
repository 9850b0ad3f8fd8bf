"""Reads a topic once for all of its members in this process: one consumer, in a thread of its own.

    thread:  poll -> ranges by partition -> hand over; waits, or pauses partitions, while the quickest member is full
             assigned, revoked, lost: asks the members to open or release the partitions

Its group decides which worker has which partitions. No client joins the groups of the Triggers and Subscriptions, which
hold their offsets. Commits to such a group are not fenced. So before they commit, the reader commits its own
position, which Kafka refuses when the partitions may belong to another worker (`confirm`).

Does not start at its own committed offset: the offsets of the members decide.

When Kafka was silent until the sessions ended, each worker has lost its partitions, and each knows offsets that are not
committed. It commits them when Kafka answers (`agents/offsets/hand_over`). So a worker whose session has ended, or
whose join took longer than one, opens at once only what it has had itself, and the rest after HANDOVER_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.config import DeliveryConfig
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.backpressure import Backpressure
from agents.reader.decode import Decoded, decode
from agents.reader.fetch import Fetcher
from agents.reader.group_consumer import GroupConsumer
from agents.reader.log_end_offsets import LogEndOffsets
from agents.reader.membership import JoinWatch, instance_id, is_fatal, run_sessions
from agents.reader.membership_check import MembershipCheck, positions
from agents.reader.port import MembersPort
from agents.reader.settings import consumer_settings
from agents.reader.stall_detector import StallDetector
from agents.timing import LOOK_S, REST_S, TICK_S
from tables.kafka.loop_thread import LOOP_S, LoopThread
from tables.timing import POLL_S

log = structlog.get_logger(__name__)

_BUSY_POLL_S = 0.03  # while a commit waits for a confirmation, or records came lately
_LOST_DRAIN_S = 0.5
_LEAVE_S = 4.0


class TopicReader:
    """The thread and the Kafka client of one topic."""

    def __init__(self, topic: str, group: str, client_name: str, config: DeliveryConfig, owner: MembersPort) -> None:
        self.topic = topic
        self.client_name = client_name
        self.rebalances = {"assigned": 0, "revoked": 0, "lost": 0}  #: number of each
        #: Where it reads each partition: a partition without deliveries, whose tracker has the position.
        self.heads: dict[int, PartitionState] = {}
        self._instance_id = instance_id(client_name)
        self._group = group
        self._config = config
        self._owner = owner
        self._thread = LoopThread(self._run, f"reader-{topic}", owner.fatal)
        self._stop = self._thread.stopping
        self._fetcher = Fetcher(lambda number: self.heads.get(number) if number is not None else None)
        self._log_end_offsets, self._stall_detector = LogEndOffsets(), StallDetector()
        self._polled_at = time.monotonic()
        self._drain_s = 0.0
        self._lately: set[int] = set()  # lost so lately that nobody can know more of them
        self._backpressure = Backpressure(config.buffer_bytes_max, self._stop)
        self._confirmation_requested = threading.Event()
        self._check = MembershipCheck(topic, self._confirmation_requested, self._confirmed)
        self._join_watch = JoinWatch(config.group_protocol, config.session_timeout_s, config.join_limit_s)
        self._begin_client()

    def _begin_client(self) -> None:
        # A new one for each client, so that an answer to a former client is not taken for one to this client.
        if self._check.under_way:
            self._confirmation_requested.set()
        self._check = MembershipCheck(self.topic, self._confirmation_requested, self._confirmed)
        self._fatal: KafkaError | None = None
        self._stuck = False  # the client cannot join its group again for minutes
        self._deferred: set[int] = set()  # assigned, to be opened when the hand-over is over
        self._backpressure.begin()
        self._join_watch.joining(time.monotonic())
        self._busy_until = self._watch_at = 0.0
        self.heads.clear()
        self._fetcher.begin()

    # -- event loop

    def start(self) -> None:
        """Join the group. Returns at once."""
        self._thread.start()

    async def stop(self, drain_s: float) -> None:
        """Release all partitions and leave the group, in `drain_s` plus some seconds."""
        self._drain_s = drain_s
        if not await self._thread.stop(drain_s + 2 * _LEAVE_S):
            log.error("the reader did not stop in time", topic=self.topic)

    def taken(self, size: int) -> None:
        """The members have taken the ranges of a `take`, of so many bytes."""
        self._backpressure.taken(size)

    def confirm(self) -> None:
        """Ask Kafka whether it still owns its partitions; `MembersPort.confirmed` follows if it does."""
        self._confirmation_requested.set()

    @property
    def poll_age_s(self) -> float:
        """Seconds since the thread last polled."""
        return time.monotonic() - self._polled_at

    # -- thread

    def _run(self) -> None:
        run_sessions(self._session, self._stop, self._failed)

    def _failed(self, problem: Exception, fatal: bool) -> None:
        log.warning("the Kafka consumer failed; it joins the group again", topic=self.topic, reason=str(problem))
        self._join_watch.expelled()
        if fatal:
            self._instance_id = instance_id(self.client_name)

    def _session(self) -> None:
        self._polled_at = time.monotonic()
        settings = consumer_settings(self._config, self._group, self.client_name, self._instance_id)
        self._begin_client()
        settings |= {"on_commit": self._check.answered, "error_cb": partial(self._on_error, self._check)}
        consumer = GroupConsumer(settings)
        consumer.follow(self.topic, self._on_assign, self._on_revoke, self._on_lost)
        try:
            while not (self._stop.is_set() or self._stuck):
                now = self._polled_at = time.monotonic()
                # Few calls: at a low rate each event is a turn of this loop.
                if self._fatal is not None:
                    raise KafkaException(self._fatal)
                if self._confirmation_requested.is_set():
                    self._check.ask(consumer, self.heads)
                if now >= self._watch_at:
                    self._watch_at = now + POLL_S
                    self._watch(consumer, now)
                paused = self._backpressure.throttle(self._owner.quickest, consumer, self.heads.values())
                busy = self._check.pending or now < self._busy_until
                wait_s = TICK_S if paused else _BUSY_POLL_S if busy else REST_S
                messages = self._fetcher.fetch(consumer, wait_s)
                if messages:
                    self._busy_until = now + LOOK_S
                    self._hand(consumer, messages)
            if not self._stuck:
                heads = list(self.heads.values())
                self.heads.clear()
                self._release(consumer, heads, self._drain_s)
                consumer.leave()
        finally:
            if self.heads:  # an exception has left them: as good as lost
                self._lose(list(self.heads.values()), 0.0)
                self.heads.clear()
            consumer.end(at_once=not (self._stuck or self._check.under_way))

    def _confirmed(self, at: float) -> None:
        self._thread.call_soon(self._owner.confirmed, at)

    def _await(self, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        return self._thread.begin(work).result(limit_s + 2 * LOOP_S)

    # -- records

    def _hand(self, consumer: Consumer, messages: list[Message]) -> None:
        decoded = decode(messages, self.heads, self._owner.lone)
        if decoded.ranges:
            self._backpressure.handed(decoded.size)
            self._thread.call_soon(self._owner.take, decoded.ranges)
        self._on_message_errors(consumer, decoded)

    def _on_message_errors(self, consumer: Consumer, decoded: Decoded) -> None:
        for number in decoded.out_of_range:
            self._out_of_range(consumer, self.heads[number])
        for error in decoded.errors:
            if is_fatal(error) or error.code() == KafkaError._MAX_POLL_EXCEEDED:
                raise KafkaException(error)
            log.warning("the Kafka consumer reports an error", topic=self.topic, reason=error.str())

    def _out_of_range(self, consumer: Consumer, head: PartitionState) -> None:
        """The position is not in the log: below its start (retention) or beyond its end (the topic was created
        again)."""
        where = TopicPartition(self.topic, head.number)
        low, high = consumer.get_watermark_offsets(where, timeout=10)
        at = head.tracker.fetched
        if at > high:
            self._thread.call(self._owner.truncated, head.number, high)
        elif at < low:
            self._thread.call(self._owner.skip, head.number, low)
        self._read_from(consumer, head, min(max(at, low), high))

    def _read_from(self, consumer: Consumer, head: PartitionState, offset: int) -> None:
        """Assign the partition again at `offset`: the client cannot seek after an out-of-range error."""
        self._backpressure.forget(consumer, head)
        head.tracker.fetched = offset
        where = TopicPartition(self.topic, head.number, offset)
        consumer.incremental_unassign([where])
        consumer.incremental_assign([where])

    # -- between two polls

    def _watch(self, consumer: Consumer, now: float) -> None:
        if self._join_watch.rests(now):
            self._lately.clear()
        if self._deferred and now >= self._join_watch.handover_until:
            due = list(self._deferred)
            self._deferred.clear()
            # Assigned and paused so far. `_open` assigns them again, at the offsets that are committed by now.
            places = [TopicPartition(self.topic, number) for number in due]
            consumer.resume(places)
            consumer.incremental_unassign(places)
            self._open(consumer, due)
        if self._join_watch.failed(now):
            log.warning("the client has not joined its group; a new one replaces it", topic=self.topic)
            self._join_watch.expelled()
            self._stuck = True
        heads = self.heads.values()
        if self._log_end_offsets.refresh(consumer, heads, now):
            self._thread.call_soon(self._owner.ends, list(heads))
        for stalled in self._stall_detector.stalled(heads, self._backpressure.budget.paused, now):
            log.warning(
                "a partition returns no records although its log has more; it is assigned again",
                topic=self.topic,
                partition=stalled.number,
                offset=stalled.tracker.fetched,
                end=stalled.log_end_offset,
            )
            self._read_from(consumer, stalled, stalled.tracker.fetched)

    # -- callbacks of the client, inside poll()

    def _on_error(self, check: MembershipCheck, error: KafkaError) -> None:
        if check is not self._check:  # a former client, which is still closing
            return
        if is_fatal(error):  # only reported here; no call raises it
            self._fatal = error
        elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            log.warning("the Kafka consumer reports an error", topic=self.topic, reason=error.str())

    def _on_assign(self, consumer: GroupConsumer, assigned: list[TopicPartition]) -> None:
        numbers = [where.partition for where in assigned]
        if consumer.expelled_idle:
            self._join_watch.expelled()
        self._join_watch.joined(time.monotonic())
        if not numbers:
            return
        self.rebalances["assigned"] += 1
        if time.monotonic() < self._join_watch.handover_until:
            self._defer(consumer, [number for number in numbers if number not in self._lately])
        self._open(consumer, [number for number in numbers if number not in self._deferred])

    def _defer(self, consumer: Consumer, numbers: list[int]) -> None:
        """Assign them paused: the client requires an assignment within the callback."""
        if not numbers:
            return
        self._deferred.update(numbers)
        places = [TopicPartition(self.topic, number, 0) for number in numbers]
        consumer.incremental_assign(places)
        consumer.pause(places)

    def _open(self, consumer: Consumer, numbers: list[int]) -> None:
        if not numbers:
            return
        starts = self._await(self._owner.open(numbers), LOOP_S)
        self._lately.difference_update(numbers)
        for number, start in starts.items():
            self.heads[number] = PartitionState(self.topic, number, OffsetTracker(start))
        consumer.incremental_assign([TopicPartition(self.topic, number, start) for number, start in starts.items()])
        log.info("partitions assigned", topic=self.topic, partitions=numbers)

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        going = self._going(consumer, revoked)
        self._join_watch.revoked()
        if going:
            self._release(consumer, going, self._config.revoke_drain_s)
            self.rebalances["revoked"] += 1
            log.info("partitions revoked", topic=self.topic, partitions=[head.number for head in going])

    def _on_lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """Others may own them already: no commit, and only a short wait for answers that are on their way."""
        self.rebalances["lost"] += 1
        self._join_watch.joining(time.monotonic())
        going = self._going(consumer, lost)
        # librdkafka joins again only when the commit under way has failed. With its retries that takes minutes.
        self._stuck = self._check.under_way
        self._lose(going, _LOST_DRAIN_S)
        log.warning("partitions lost", topic=self.topic, partitions=[head.number for head in going])

    def _going(self, consumer: Consumer, places: list[TopicPartition]) -> list[PartitionState]:
        # While they are assigned: the client keeps the pause over all later assignments.
        if paused := [where for where in places if where.partition in self._deferred]:
            consumer.resume(paused)
        going = []
        for where in places:
            self._deferred.discard(where.partition)
            head = self.heads.pop(where.partition, None)
            if head is not None:
                self._backpressure.forget(consumer, head)
                going.append(head)
        return going

    def _release(self, consumer: Consumer, going: list[PartitionState], drain_s: float) -> None:
        """Drain, and commit if they are still ours then: a process that was frozen meanwhile has lost them."""
        numbers = [head.number for head in going]
        commits = self._drain(consumer, going, drain_s)
        if commits and not self._check.ask_now(consumer, positions(going)):
            self._lose(going, 0.0)
        elif self._await(self._owner.release(numbers), LOOP_S):
            self._join_watch.expelled()
            self._lately.update(numbers)

    def _drain(self, consumer: Consumer, going: list[PartitionState], drain_s: float) -> bool:
        """Drain them. What settles meanwhile can only be committed while a confirmation holds: it is renewed, unless
        Kafka refuses it or does not answer, which takes long."""
        drained = self._thread.begin(self._owner.drain([head.number for head in going], drain_s))
        end, renewed = time.monotonic() + drain_s + 2 * LOOP_S, True
        while renewed and not drained.done():
            try:
                # Half of the time for which a confirmation holds: it is renewed before it ends.
                return drained.result(self._config.expelled_after_s / 4)
            except TimeoutError:
                renewed = time.monotonic() < end and self._check.ask_now(consumer, positions(going))
        return drained.result(max(0.0, end - time.monotonic()))

    def _lose(self, going: list[PartitionState], drain_s: float) -> None:
        self._join_watch.expelled()
        numbers = [head.number for head in going]
        self._lately.update(numbers)
        self._await(self._owner.lose(numbers, drain_s), drain_s)
