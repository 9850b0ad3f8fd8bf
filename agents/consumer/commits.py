"""Commits committable offsets and their metadata: one commit in flight at most, none when nothing has changed.

    loop:    settle / failed -> schedule_commit() -> timer (interval) -> request        result for each partition
                                             ^                           |                    |            |
                                             +------- still dirty -------|--------------------+            +-> barriers
    thread:                                                  commit(async), then on_commit

    waiting:  no  --(no commit succeeds for `timeout_s`)-->  yes  --(one succeeds, or nothing is owned)-->  no

While it is waiting, no first attempts are made: what is delivered now would be delivered again if the partition went
to another worker. A retry waits at the barrier until the attempts made so far are committed, so that a crash costs at
most one attempt.

Only the client's own thread uses the client: a commit from another thread blocks for ever while the first one polls.
Two checks prevent wrong commits. A request may be older than the release of a partition and its last commit; sent
after that, it would move the committed offset back. So the thread checks again what is owned when it sends. And a
commit can succeed for some partitions only, so the result of each one is checked.
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

#: The log event for the pause of first attempts.
WAITING_MESSAGE = "Kafka confirms no commits; new events wait"
_AWAKE_S = 1.0  # a timer that is later than this was held up: the process was frozen
_SOON_S = 0.02
_AGAIN_S = 0.1
_RELEASED_MAX = 32  # barriers per turn of the event loop
_REBALANCING = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH}
)
#: Does not pass by itself: an administrator has to grant the permission.
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_DENIED_S = 60.0  # then the process ends: all that is delivered meanwhile is delivered again after a restart
#: The broker's limits are below ours. The same commit would fail for ever, and each restart would repeat everything.
_NEVER = frozenset({KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaError.INVALID_COMMIT_OFFSET_SIZE})


def offsets(partitions: Iterable[PartitionState]) -> list[TopicPartition]:
    """Offset and metadata of each of these partitions that has uncommitted changes."""
    return [
        TopicPartition(p.topic, p.number, p.tracker.committable, p.tracker.metadata())
        for p in partitions
        if p.tracker.changes != p.committed
    ]


def commit_now(consumer: Consumer, wanted: list[TopicPartition], label: str, tries: int = 3) -> set[int]:
    """Commit and wait for the result; consumer's own thread only. Logs and returns the partitions that could not be
    committed: what was settled in them may be delivered again."""
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
    """One commit from request to answer: each partition, the value of its `changes` counter, and what is committed."""

    wanted: tuple[tuple[PartitionState, int, TopicPartition], ...]

    def answered_by(self, results: Iterable[TopicPartition]) -> bool:
        """True when the results are of this commit and not of an earlier one that was given up."""
        # librdkafka's callback does not say which commit it answers; offset and metadata do.
        mine = {_place(where) for _, _, where in self.wanted}
        return all(_place(result) in mine for result in results)


def _place(where: TopicPartition) -> tuple[int, int, str]:
    return where.partition, where.offset, where.metadata or ""


class Commits:
    """Commits of one subscription. Event loop only, except `send_requested` and `on_commit` (consumer's thread).

    One commit is in one of these states: none (`_flight` is None), requested (`_request` is `_flight`: the thread has
    not taken it yet), sent (`_request` is None). The answer of a commit that was given up is ignored.
    """

    def __init__(
        self,
        label: str,
        interval_s: float,
        fatal: Callable[[BaseException], None],
        *,
        timeout_s: float = 2.0,
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`label`: the subscription, for logs. `fatal` ends the process when commits can no longer succeed. Calls
        `waiting(True)` when no commit has succeeded for `timeout_s`, and `waiting(False)` when one succeeds again or
        no partition is left."""
        self._label = label
        self._fatal = fatal
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._listener = waiting
        self._loop = asyncio.get_running_loop()
        self._attached = False
        self._partitions: dict[int, PartitionState] = {}
        self._request: _Flight | None = None  # the same as `_flight` until the thread takes it
        self._flight: _Flight | None = None
        self._overdue: asyncio.TimerHandle | None = None  # runs from the first commit without success
        self.waiting = False  #: Kafka has confirmed no commit for `timeout_s`
        self.silent = False  #: the same while this process was not frozen: so other members could not commit either
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._missed = False  # a commit was due while another one was in flight
        self._barriers: list[tuple[PartitionState, int, asyncio.Future[None]]] = []
        self._failing = False
        self._denied_since: float | None = None
        self.count = 0  #: commits that succeeded
        self.failures = 0  #: commits that failed

    @property
    def wanted(self) -> bool:
        """A commit is due or in flight, so the thread should poll often. May be read from any thread."""
        return self._timer is not None or self._flight is not None

    @property
    def in_flight(self) -> bool:
        """A commit was sent and is not answered. For the consumer's thread, while it is not sending one."""
        return self._flight is not None and self._request is None

    def attach(self, partitions: dict[int, PartitionState]) -> None:
        """Commit for the partitions in this live mapping from now on: a new client has joined."""
        self._attached, self._partitions = True, partitions
        self.forget()

    def detach(self) -> None:
        """Stop committing: the client is about to be closed."""
        self._attached = False
        self.forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """Every partition was lost: ignore the answer of a commit in flight, and do not wait for it."""
        self._request = self._flight = None
        self._confirmed()

    def schedule_commit(self, within_s: float | None = None) -> None:
        """Something has changed: commit within the interval, or within `within_s`."""
        if self._timer is not None:
            if within_s is None or self._loop.time() + within_s >= self._due:
                return
            self._timer.cancel()
        wait_s = self._interval_s if within_s is None else within_s
        self._due = self._loop.time() + wait_s
        self._timer = self._loop.call_later(wait_s, self._commit)

    def give_up_flight(self) -> None:
        """Ignore the commit in flight. Called before the thread stops polling for a while: it would not get the answer,
        and other commits must be possible meanwhile."""
        if self._flight is not None and self._request is None:
            self._flight = None
            self.schedule_commit(_SOON_S)

    async def barrier(self, partition: PartitionState) -> None:
        """Return when the present state of this partition is committed. Cancel it when the partition is revoked."""
        if partition.committed >= partition.tracker.changes:
            return
        future = self._loop.create_future()
        self._barriers.append((partition, partition.tracker.changes, future))
        self.schedule_commit(_SOON_S)
        await future

    def _commit(self) -> None:
        try:
            if self._loop.time() - self._due > self._timeout_s and not self.waiting:
                self._wait()  # the process was frozen: its session may have ended, and others own the partitions
            self._request_commit()
        except Exception as problem:  # the loop only logs what a timer raises
            self._fatal(problem)

    def _request_commit(self) -> None:
        self._timer = None
        if not self._attached:
            return
        if self._flight is not None:
            self._missed = True  # one at a time; `_answered` schedules the next
            return
        dirty = [p for p in self._owned() if p.tracker.changes != p.committed]
        if not dirty:
            return
        wanted = zip(dirty, [p.tracker.changes for p in dirty], offsets(dirty), strict=True)
        self._request = self._flight = _Flight(tuple(wanted))
        # The timer runs from the first commit that is not confirmed; later ones do not restart it.
        if self._overdue is None:
            due = self._loop.time() + self._timeout_s
            self._overdue = self._loop.call_at(due, self._unanswered, due)

    def _unanswered(self, due: float) -> None:
        # On time: Kafka was silent, probably to all members. Late: this process was frozen, and others went on.
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
        """Copied in one step, because the consumer's thread changes the mapping."""
        return list(self._partitions.values())

    def send_requested(self, consumer: Consumer, wait: bool = False) -> None:
        """Send the requested commit, from the consumer's thread. `wait`: the thread does not poll for the result."""
        flight, self._request = self._request, None
        if flight is None:
            return
        owned = self._partitions
        wanted = []
        for partition, _, where in flight.wanted:
            if owned.get(partition.number) is partition:
                partition.requested = where.offset
                wanted.append(where)
        if not wanted:  # all of it was revoked (with its own last commit) or lost
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
        self._loop.call_soon_threadsafe(self._on_result, error, partitions)

    def _on_result(self, error: KafkaError | None, results: list[TopicPartition]) -> None:
        if self._flight is not None and self._flight.answered_by(results):
            self._answered(self._flight, error, results)

    def _answered(self, flight: _Flight, error: KafkaError | None, results: list[TopicPartition]) -> None:
        if flight is not self._flight:
            return  # given up meanwhile
        self._flight = None
        errors = {result.partition: result.error or error for result in results}
        problem: KafkaError | None = None
        for partition, changes, where in flight.wanted:
            if self._partitions.get(partition.number) is not partition:
                continue  # revoked or lost before the commit was sent, or since: its result is not known
            refused = errors.get(partition.number, error)
            if refused is None:  # `changes` of the request: what has changed since then is not in this commit
                partition.committed = max(partition.committed, changes)
                partition.acknowledged = max(partition.acknowledged, where.offset)
            else:
                problem = refused
        if problem is not None:
            self._failed(problem)
        else:
            self._succeeded()
        self._release()
        # Soon only after a success: a broker that fails would otherwise get a commit every few milliseconds.
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
            log.debug("commit rejected during a rebalance; it is tried again", subscription=self._label)
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
        """Release the barriers whose changes are committed, some in each turn of the event loop, because hundreds may
        wait for one commit."""
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
