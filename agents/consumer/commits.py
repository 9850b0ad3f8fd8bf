"""Commits of one consumer: watermarks and their metadata, at most one commit on its way, none when nothing moved.

    loop:    settle / failed -> touch() -> timer (commit interval) -> snapshot          result for each partition
                                             ^                           |                    |            |
                                             +------- still dirty -------|--------------------+            +-> barriers
    thread:                                                  commit(async), then on_commit

    waiting:  no  --(a commit without success for `timeout_s`)-->  yes  --(success, or nothing is owned)-->  no

While it is waiting, no first attempts are made: what is delivered now would be delivered again if the partition went
to another worker.
A retry waits at the barrier until the attempts made so far are committed, so that a crash costs at most one attempt.
The client is used by its own thread only: a commit from another one waits for ever while the first one polls.
A request that was made before a partition was let go and is sent after it would put the last commit back, and the next
owner would repeat what lies between: it is looked at again when it is sent.

Refuses to commit for a partition that this process has let go, and to believe a commit whose partitions were not
looked at one by one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.ordering.partition import PartitionState

log = structlog.get_logger(__name__)

#: The event in the log when first attempts pause.
WAITING_MESSAGE = "Kafka confirms no commits; new events wait"
_AWAKE_S = 1.0  # a timer that comes later than this: the process was frozen
_SOON_S = 0.02
_AGAIN_S = 0.1
_RELEASED_MAX = 32  # in one turn of the event loop
_REBALANCING = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH}
)
#: Passes when somebody grants it, and not by itself.
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_DENIED_S = 60.0  # what is delivered meanwhile is delivered again after a restart: not for ever
#: The broker's limits are below ours: the same commit would be refused for ever, and all be repeated at each restart.
_NEVER = frozenset({KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaError.INVALID_COMMIT_OFFSET_SIZE})


def offsets(partitions: Iterable[PartitionState]) -> list[TopicPartition]:
    """What to commit for these partitions now."""
    return [
        TopicPartition(p.topic, p.number, p.tracker.committable, p.tracker.metadata())
        for p in partitions
        if p.tracker.changes != p.committed
    ]


def commit_now(consumer: Consumer, wanted: list[TopicPartition], label: str, tries: int = 3) -> set[int]:
    """Commit and wait; from the consumer's own thread. Gives the partitions that could not be committed: they are
    logged, and what they settled may be delivered again."""
    for left in reversed(range(tries)):
        if not wanted:
            break
        if left < tries - 1:
            time.sleep(_AGAIN_S)
        try:
            results = consumer.commit(offsets=wanted, asynchronous=False) or []
        except KafkaException as problem:
            reason = problem.args[0].str()
        else:
            refused = {(r.topic, r.partition): r.error for r in results if r.error is not None}
            reason = "; ".join(f"{p}: {error.str()}" for (_, p), error in refused.items())
            wanted = [w for w in wanted if (w.topic, w.partition) in refused]
        if wanted and not left:
            log.error("last commit failed; some events may be delivered again", subscription=label, reason=reason)
    return {where.partition for where in wanted}


@dataclass(frozen=True, slots=True)
class _Flight:
    """One commit from its request to its answer: what is committed, of which partition, at which of its changes."""

    wanted: tuple[tuple[PartitionState, int, TopicPartition], ...]

    def answered_by(self, results: Iterable[TopicPartition]) -> bool:
        """True when the results are of this commit and not of an earlier one that was given up."""
        mine = {_place(where) for _, _, where in self.wanted}
        return all(_place(result) in mine for result in results)


def _place(where: TopicPartition) -> tuple[int, int, str]:
    return where.partition, where.offset, where.metadata or ""


class Commits:
    """Event loop only, but for `send_requested` and `on_commit`, which run in the consumer's thread."""

    def __init__(
        self,
        label: str,
        interval_s: float,
        fatal: Callable[[BaseException], None],
        *,
        timeout_s: float = 2.0,
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`label`: the subscription, for logs. `fatal` ends the process: nothing of it can be committed any more.
        `waiting(True)` is called when a commit has gone without success for `timeout_s`, `waiting(False)` when one has
        succeeded again, or nothing is left to commit for."""
        self._label = label
        self._fatal = fatal
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._listener = waiting
        self._loop = asyncio.get_running_loop()
        self._attached = False
        self._partitions: dict[int, PartitionState] = {}
        self._request: _Flight | None = None  # of `_flight`, until the thread takes it
        self._flight: _Flight | None = None
        self._overdue: asyncio.TimerHandle | None = None  # since the first commit that had no success
        self.waiting = False  #: Kafka has confirmed no commit for too long
        self.silent = False  #: the same, and this process was awake all the time: nobody could commit
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._missed = False  # a commit was due while another one was on its way
        self._barriers: list[tuple[PartitionState, int, asyncio.Future[None]]] = []
        self._failing = False
        self._denied_since: float | None = None
        self.count = 0  #: commits that succeeded
        self.failures = 0  #: commits that did not

    @property
    def wanted(self) -> bool:
        """A commit is due soon or on its way: the thread should look often (it may ask from outside the loop)."""
        return self._timer is not None or self._flight is not None

    @property
    def in_flight(self) -> bool:
        """A commit was sent and is not answered; for the consumer's thread, while it sends none."""
        return self._flight is not None and self._request is None

    def attach(self, partitions: dict[int, PartitionState]) -> None:
        """A consumer is there; commit the partitions in this (live) mapping from now on."""
        self._attached, self._partitions = True, partitions
        self.forget()

    def detach(self) -> None:
        """The consumer is about to be closed."""
        self._attached = False
        self.forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """The group has taken every partition away: what is on its way counts for nothing, and nobody waits for it."""
        self._request = self._flight = None
        self._confirmed()

    def schedule_commit(self, within_s: float | None = None) -> None:
        """Something moved: commit within the interval, or sooner."""
        if self._timer is not None:
            if within_s is None or self._loop.time() + within_s >= self._due:
                return
            self._timer.cancel()
        wait_s = self._interval_s if within_s is None else within_s
        self._due = self._loop.time() + wait_s
        self._timer = self._loop.call_later(wait_s, self._commit)

    def give_up_flight(self) -> None:
        """The thread is about not to poll for a while, and so not to hear of the commit that is on its way: it counts
        for nothing, and others are made meanwhile."""
        if self._flight is not None and self._request is None:
            self._flight = None
            self.schedule_commit(_SOON_S)

    async def barrier(self, partition: PartitionState) -> None:
        """Returns when everything that is known of this partition now is committed. Cancel it when it is revoked."""
        if partition.committed >= partition.tracker.changes:
            return
        future = self._loop.create_future()
        self._barriers.append((partition, partition.tracker.changes, future))
        self.schedule_commit(_SOON_S)
        await future

    def _commit(self) -> None:
        try:
            if self._loop.time() - self._due > self._timeout_s and not self.waiting:
                self._wait()  # the process was frozen: its session may be over, and the group at work elsewhere
            self._request_commit()
        except Exception as problem:  # nobody else would hear of what a timer raises
            self._fatal(problem)

    def _request_commit(self) -> None:
        self._timer = None
        if not self._attached:
            return
        if self._flight is not None:
            self._missed = True  # one at a time; the answer brings the next one
            return
        dirty = [p for p in self._owned() if p.tracker.changes != p.committed]
        if not dirty:
            return
        wanted = zip(dirty, [p.tracker.changes for p in dirty], offsets(dirty), strict=True)
        self._request = self._flight = _Flight(tuple(wanted))
        if self._overdue is None:
            due = self._loop.time() + self._timeout_s
            self._overdue = self._loop.call_at(due, self._unanswered, due)

    def _unanswered(self, due: float) -> None:
        self.silent = self._loop.time() - due < _AWAKE_S
        self._wait()

    def _wait(self) -> None:
        self.waiting = True
        log.warning(WAITING_MESSAGE, subscription=self._label, after_s=self._timeout_s)
        self._listener(True)

    def _confirmed(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        self.silent = False
        if self.waiting:
            self.waiting = False
            self._listener(False)

    def _owned(self) -> list[PartitionState]:
        """Copied in one step: the consumer's thread changes the mapping."""
        return list(self._partitions.values())

    def send_requested(self, consumer: Consumer, wait: bool = False) -> None:
        """Send what was requested; from the consumer's thread. `wait` where nobody polls for the result."""
        flight, self._request = self._request, None
        if flight is None:
            return
        owned = self._partitions
        wanted = []
        for partition, _, where in flight.wanted:
            if owned.get(partition.number) is partition:
                partition.requested = where.offset
                wanted.append(where)
        if not wanted:  # all of it was let go, with a last commit of its own, or lost
            self._loop.call_soon_threadsafe(self._answered, flight, None, [])
            return
        try:
            results = consumer.commit(offsets=wanted, asynchronous=not wait)  # type: ignore[call-overload]
            if wait:
                self._loop.call_soon_threadsafe(self._answered, flight, None, results or [])
        except KafkaException as problem:
            self._loop.call_soon_threadsafe(self._answered, flight, problem.args[0], [])

    def on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """librdkafka's callback, in the consumer's thread."""
        self._loop.call_soon_threadsafe(self._heard, error, partitions)

    def _heard(self, error: KafkaError | None, results: list[TopicPartition]) -> None:
        if self._flight is not None and self._flight.answered_by(results):
            self._answered(self._flight, error, results)

    def _answered(self, flight: _Flight, error: KafkaError | None, results: list[TopicPartition]) -> None:
        if flight is not self._flight:
            return  # it was given up
        self._flight = None
        errors = {result.partition: result.error or error for result in results}
        problem: KafkaError | None = None
        for partition, changes, where in flight.wanted:
            if self._partitions.get(partition.number) is not partition:
                continue  # let go before the commit was sent, or since: what it said of this one is not known
            refused = errors.get(partition.number, error)
            if refused is None:
                partition.committed = max(partition.committed, changes)
                partition.acknowledged = max(partition.acknowledged, where.offset)
            else:
                problem = refused
        if problem is not None:
            self._failed(problem)
        else:
            self._succeeded()
        self._release()
        soon = problem is None and (self._missed or bool(self._barriers))
        self._missed = False
        if any(p.tracker.changes != p.committed for p in self._owned()):
            self.schedule_commit(_SOON_S if soon else None)

    def _succeeded(self) -> None:
        self.count += 1
        self._denied_since = None
        self._confirmed()
        if self._failing:
            self._failing = False
            log.info("commits work again", subscription=self._label)

    def _failed(self, error: KafkaError) -> None:
        self.failures += 1
        if error.code() in _NEVER or self._denied_too_long(error):
            self._fatal(KafkaException(error))
        if error.code() in _REBALANCING:
            log.debug("commit refused during a rebalance; it is tried again", subscription=self._label)
        elif not self._failing:
            self._failing = True
            log.warning("commit failed; it is tried again", subscription=self._label, reason=error.str())
        self.schedule_commit()

    def _denied_too_long(self, error: KafkaError) -> bool:
        if error.code() not in _DENIED:
            return False
        now = self._loop.time()
        self._denied_since = self._denied_since or now
        return now - self._denied_since > _DENIED_S

    def _release(self) -> None:
        """Let those go on whose attempts are committed, some in each turn of the event loop: one commit may be what
        hundreds wait for."""
        if not self._barriers:
            return
        waiting, released = [], 0
        for partition, changes, future in self._barriers:
            if partition.committed >= changes and released < _RELEASED_MAX and not future.done():
                future.set_result(None)
                released += 1
            elif not future.done():
                waiting.append((partition, changes, future))
        self._barriers = waiting
        if released == _RELEASED_MAX:
            self._loop.call_soon(self._release)
