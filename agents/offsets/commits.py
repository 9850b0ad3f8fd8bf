"""Commits committable offsets and their metadata: one commit in flight at most, none when nothing has changed.

    settle / failed -> schedule_commit() -> timer (interval) -> requested -> send_requested()     answer
                               ^                                                                    |   |
                               +--------------------------- still dirty ----------------------------+   +-> barriers

What is due, and what an answer means, is decided in `agents/offsets/commit_state`; here are the timers. While Kafka
confirms no commits, no first attempts are made: what is delivered now would be delivered again if the partition went to
another worker. A retry waits at the barrier until the attempts made so far are committed, so that a crash costs at most
one attempt.

A request may be older than the release of a partition and its last commit; sent after that, it would move the committed
offset back. So what is owned is checked again when it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents.offsets.commit_state import (
    SOON_S,
    Change,
    Commit,
    CommitMachine,
    CommitState,
    Confirmation,
    NextCommit,
    changes,
)
from agents.offsets.partition import PartitionState
from agents.timing import SELDOM_S, STEADY_S

log = structlog.get_logger(__name__)

#: The log event for the pause of first attempts.
WAITING_MESSAGE = "Kafka does not confirm commits; new events wait"
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
#: The broker's limits are below ours. The same commit would fail for ever, and each restart would repeat everything.
_NEVER = frozenset({KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaError.INVALID_COMMIT_OFFSET_SIZE})


def offsets(partitions: Iterable[PartitionState]) -> list[TopicPartition]:
    """Returns offset and metadata of each of these partitions that has uncommitted changes."""
    return [_place(change) for change in changes(partitions)]


def _place(change: Change) -> TopicPartition:
    return TopicPartition(change.partition.topic, change.partition.number, change.offset, change.metadata)


class _Alarm:
    """A timer that follows a time of the machine: it rings once for each time that it is set to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, at: float | None) -> None:
        """Ring at this time of the loop's clock, and at no other. None: do not ring."""
        if at == self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = None if at is None else self._loop.call_at(at, self._ring)


class _Barriers:
    """Who waits for a commit, and for which changes of which partition."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._barriers: list[tuple[PartitionState, int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._barriers)

    def add(self, partition: PartitionState) -> asyncio.Future[None]:
        """Returns a future that is done when the present changes of this partition are committed."""
        future = self._loop.create_future()
        self._barriers.append((partition, partition.tracker.changes, future))
        return future

    def release(self) -> None:
        """Release those whose changes are committed, some in each turn of the event loop, because hundreds may wait for
        one commit."""
        waiting, released = [], 0
        for partition, count, future in self._barriers:
            if future.done():  # cancelled
                continue
            if partition.committed >= count and released < _RELEASED_MAX:
                future.set_result(None)
                released += 1
            else:
                waiting.append((partition, count, future))
        self._barriers = waiting
        if released == _RELEASED_MAX:
            self._loop.call_soon(self.release)


#: Answers a commit; None = it is confirmed for all of its partitions.
Answered = Callable[[KafkaError | None], None]
#: Sends a commit.
Send = Callable[[list[TopicPartition], Answered], None]


class Commits:
    """Commits of one subscription. Event loop only."""

    def __init__(
        self,
        label: str,
        interval_s: float,
        fatal: Callable[[BaseException], None],
        send: Send,
        *,
        timeout_s: float = 2.0,
        waiting: Callable[[bool], None] = lambda _: None,
        requested: Callable[[], None] = lambda: None,
    ) -> None:
        """`label`: the subscription, for logs. `fatal` ends the process when commits can no longer succeed. Calls
        `waiting(True)` when no commit has succeeded for `timeout_s`, and `waiting(False)` when one succeeds again or
        none is needed; `requested()` when `send_requested` has something to send."""
        self._label = label
        self._fatal = fatal
        self._send = send
        self._timeout_s = timeout_s
        self._listener = waiting
        self._on_requested = requested
        self._loop = loop = asyncio.get_running_loop()
        self._machine = CommitMachine(interval_s, timeout_s)
        self._due = _Alarm(loop, partial(self._guarded, self._on_due))
        self._overdue = _Alarm(loop, partial(self._guarded, self._on_overdue))
        self._barriers = _Barriers(loop)
        self.waiting = False  #: Kafka has confirmed no commit for `timeout_s`
        self._late = False  # the next commit is due later than the interval
        self._failing = False  # a warning was logged, and no commit has succeeded since
        self._denied_since: float | None = None
        self.count = 0  #: commits that succeeded
        self.failures = 0  #: commits that failed

    @property
    def silent(self) -> bool:
        """No commits while this process was not frozen: so other members could not commit either."""
        return self._machine.confirmation is Confirmation.SILENT

    def attach(self, partitions: dict[int, PartitionState]) -> None:
        """Commit for the partitions in this live mapping from now on."""
        self._machine.attach(self._loop.time(), partitions)
        self._follow()

    def detach(self) -> None:
        """Stop committing."""
        self._machine.detach(self._loop.time())
        self._follow()

    def forget(self) -> None:
        """Every partition was lost: ignore the answer of a commit in flight, and do not wait for it."""
        self._machine.forget(self._loop.time())
        self._follow()

    def schedule_commit(self, within_s: float | None = None) -> None:
        """Something has changed: commit within the interval, or within `within_s`."""
        machine = self._machine
        # Called once for each event. Usually a commit is due already, and nothing has to be done.
        if within_s is not None or machine.next is NextCommit.NONE or self._late:
            self._late = False
            machine.schedule(self._loop.time(), within_s)
            self._due.follow(machine.due_at)

    def schedule_late_commit(self) -> None:
        """Only events that were filtered out are new: reading them again would cost nobody anything. Commit within
        `SELDOM_S`, or together with what matters more."""
        machine = self._machine
        if machine.next is NextCommit.NONE:
            self._late = True
            machine.schedule(self._loop.time(), SELDOM_S)
            self._due.follow(machine.due_at)

    async def barrier(self, partition: PartitionState) -> None:
        """Return when the present state of this partition is committed. Cancel it when the partition is revoked."""
        if partition.committed >= partition.tracker.changes:
            return
        committed = self._barriers.add(partition)
        self.schedule_commit(SOON_S)
        await committed

    def _follow(self) -> None:
        """Make timers and the listener follow the machine."""
        machine = self._machine
        self._due.follow(machine.due_at)
        self._overdue.follow(machine.overdue_at)
        if machine.waiting is not self.waiting:
            self.waiting = machine.waiting
            if self.waiting:
                log.warning(WAITING_MESSAGE, subscription=self._label, after_s=self._timeout_s)
            self._listener(self.waiting)

    def _guarded(self, callback: Callable[..., None], *args: Any) -> None:
        """For the event loop, which only logs what a callback raises: the subscription would stand still."""
        try:
            callback(*args)
        except Exception as problem:
            self._fatal(problem)

    def _on_due(self) -> None:
        self._late = False
        self._machine.due(self._loop.time())
        self._follow()
        if self._machine.state is CommitState.REQUESTED:
            self._on_requested()

    def _on_overdue(self) -> None:
        self._machine.overdue(self._loop.time())
        self._follow()

    def send_requested(self) -> None:
        """Send the requested commit, if there is one."""
        commit = self._machine.send()
        if commit is None:
            return
        places = []
        for change in commit.changes:
            if self._machine.owns(change.partition):
                change.partition.requested = change.offset
                places.append(_place(change))
        if places:
            self._send(places, partial(self._guarded, self._answered, commit))
        else:  # all of it was revoked (with its own last commit) or lost: Kafka confirms nothing
            self._answered(commit, KafkaError(KafkaError._NO_OFFSET))

    def _answered(self, commit: Commit, error: KafkaError | None) -> None:
        if commit is not self._machine.commit:
            return  # forgotten meanwhile
        failed = self._machine.answered(self._loop.time(), error is None)
        if error is None:
            self._succeeded()
        elif failed:
            self._failed(error)
        self._barriers.release()
        if self._barriers and not failed:
            self._machine.schedule(self._loop.time(), SOON_S)
        self._follow()

    def _succeeded(self) -> None:
        self.count += 1
        self._denied_since = None
        if self._failing:
            self._failing = False
            log.info("commits work again", subscription=self._label)

    def _failed(self, error: KafkaError) -> None:
        self.failures += 1
        if error.code() in _NEVER or self._denied_too_long(error):
            self._fatal(KafkaException(error))
        if error.code() in _REBALANCING:
            log.debug("a commit was rejected during a rebalance; it is tried again", subscription=self._label)
        elif not self._failing:
            self._failing = True
            log.warning("a commit failed; it is tried again", subscription=self._label, reason=error.str())

    def _denied_too_long(self, error: KafkaError) -> bool:
        if error.code() not in _DENIED:
            return False
        now = self._loop.time()
        self._denied_since = self._denied_since or now
        # Then the process ends: all that is delivered meanwhile is delivered again after a restart.
        return now - self._denied_since > STEADY_S
