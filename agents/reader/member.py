"""One Subscription or Trigger of a topic: what it owns, its positions, and its commits.

Members.take(range) -> Member.take: covers its position? in budget? --> filter --> what passes: to its agent
                                                                     `-------> the rest is settled at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog
from confluent_kafka import TopicPartition

from agents.bounded_wait import at_most
from agents.config import DeliveryConfig
from agents.offsets.commits import Answered, Commits, offsets
from agents.offsets.group_offsets import Claim, GroupOffsets
from agents.offsets.hand_over import HandOver
from agents.offsets.late_commits import Start
from agents.offsets.lost_partitions import LostPartitions
from agents.offsets.partition import Batch, PartitionState
from agents.reader.memory_budget import RECORDS_MAX
from agents.reader.ranges import Range, covers
from agents.reader.selection import select
from knative.contract.records import Subscription
from knative.filters import Matcher
from knative.ports import Headers, Observe

log = structlog.get_logger(__name__)

_LEAVE_S = 16.0  # in addition to the drain


class MemberListener(Protocol):
    """Called on the event loop."""

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions were assigned; records of them follow."""

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more and wait up to `limit_s` for what is in flight. Nothing of them changes afterwards."""

    def enqueue(self, batches: list[Batch]) -> None:
        """Deliver these, in order."""

    @property
    def matcher(self) -> Matcher | None:
        """Whether an event passes the filter of the present generation; None = every event does."""

    @property
    def at_once(self) -> int:
        """How many events the filter may judge before others have their turn."""

    @property
    def filtered(self) -> Callable[[Headers], None] | None:
        """Called with the headers of each event that does not pass."""

    def waiting_for_kafka(self, waiting: bool) -> None:
        """`waiting`: Kafka confirms no commits, so start nothing new; else it does again."""

    def failing(self) -> None:
        """A partition has been stopped."""

    def fatal(self, problem: BaseException) -> None:
        """The process must end."""


class Joined(Protocol):
    """What a member needs of the others and their reader."""

    @property
    def rebalances(self) -> Mapping[str, int]:
        """How often partitions were assigned, revoked and lost."""

    @property
    def poll_age_s(self) -> float:
        """Seconds since the reader last polled."""

    async def leave(self, member: Member, drain_s: float) -> None:
        """Drain, commit and read no more for it."""

    @property
    def confirmed_lately(self) -> bool:
        """Whether the reader is known to own its partitions. Any thread."""

    def when_confirmed(self, member: Member) -> None:
        """Call `send_commit` when the reader is known to own its partitions."""


Join = Callable[["Member"], Joined]  #: reads for this member too, from now on


class Member:
    """Event loop only, except for `following` and the properties."""

    def __init__(
        self,
        subscription: Subscription,
        client_name: str,
        config: DeliveryConfig,
        owner: MemberListener,
        join: Join,
        group_offsets: GroupOffsets,
        observe: Observe,
    ) -> None:
        self.subscription = subscription
        self.client_name = client_name
        self._lost = LostPartitions()
        self._hand_over = HandOver(subscription, group_offsets, owner.fatal)
        self.states: dict[int, PartitionState] = {}
        self._config = config
        self._listener = owner
        self._observe = observe
        self._join = join
        self._joined: Joined | None = None  # once it has joined
        self._group_offsets = group_offsets
        self._halted: str | None = None  # why
        self._commits_last = True
        self.commits = Commits(
            subscription.label,
            config.commit_interval_s,
            owner.fatal,
            self._send,
            timeout_s=config.commit_timeout_s,
            waiting=owner.waiting_for_kafka,
            requested=self._on_commit_requested,
        )
        self._losses = 0  # how often partitions were lost
        self._releasing = asyncio.Lock()

    # -- for the runner

    def start(self) -> None:
        """Join the others of its topic. Returns at once."""
        self.commits.attach(self.states)
        self._joined = self._join(self)

    async def stop(self, drain_s: float) -> None:
        """Drain, commit and leave the others, in `drain_s` plus some seconds."""
        if self._joined is not None:
            await at_most(self._joined.leave(self, drain_s), drain_s + _LEAVE_S)

    def group_deleted(self) -> None:
        """Commit nothing more."""
        self._commits_last = False
        self._hand_over.end()
        self.commits.detach()

    def halt(self, reason: str) -> None:
        """Stop serving all partitions, also those assigned later, and report the reason."""
        self._halted = reason
        for number in self.states:
            self.fail(number, reason)

    @property
    def partitions(self) -> list[PartitionState]:
        """The partitions that it owns now."""
        return list(self.states.values())

    @property
    def confirmed(self) -> tuple[tuple[int, int], ...]:
        """(partition, committed offset that Kafka has confirmed) of each that it owns."""
        return tuple((state.number, state.acknowledged) for state in self.states.values())

    @property
    def rebalances(self) -> Mapping[str, int]:
        """How often partitions were assigned, revoked and lost."""
        return self._joined.rebalances if self._joined is not None else {}

    @property
    def poll_age_s(self) -> float:
        """Seconds since the reader last polled."""
        return self._joined.poll_age_s if self._joined is not None else 0.0

    # -- for the reader: records

    @property
    def at_once(self) -> int:
        """How many records it may `take` before others have their turn."""
        return self._listener.at_once

    def take(self, range_: Range, *, full: bool = False) -> bool:
        """Take what the range has for this member, all of it, if it covers its position and the member is not full.
        `full`: also if it is. Returns whether it has to be offered again."""
        number, end = range_.number, range_.end
        state = self.states.get(number)
        if state is None or not state.open or state.failure:
            return False
        position = state.position
        if position >= end:
            return False
        if not covers(range_.start, end, position) or (self._is_full(state) and not full):
            return True
        if range_.owner is not None and range_.owner is not state:
            return True  # it has joined, or the partition has come back, since the range was read
        listener = self._listener
        deliveries, size = select(range_, state, position, listener.matcher, listener.filtered)
        state.position = end
        if range_.records:
            count = len(range_.records)
            if position > range_.start:
                count = sum(record.offset >= position for record in range_.records)
            self._observe.consumed(self.client_name, self.subscription.topic, number, count)
        # With a batch in the channel, an empty one queues behind it: `skip_to` would pass the batch, whose events would
        # count as fetched and be lost.
        if deliveries or state.tracker.fetched < position:
            state.fetched_count += len(deliveries)
            state.fetched_bytes += size
            listener.enqueue([(state, deliveries, end)])
        elif end > state.tracker.fetched:
            state.tracker.skip_to(end)
        if len(deliveries) < len(range_.records) or not deliveries:
            self.commits.schedule_late_commit()
        return False

    def skip(self, number: int, low: int) -> int:
        """The log of the partition begins at `low`. Returns how many offsets this member had not read."""
        state = self.states.get(number)
        if state is None or state.position >= low:
            return 0
        count, state.position = low - state.position, low
        self._listener.enqueue([(state, [], low)])
        self.commits.schedule_commit()
        return count

    def behind(self, end: int, number: int) -> bool:
        """Returns whether it has not taken all below `end`, and may hold more."""
        state = self.states.get(number)
        if state is None or not state.open or state.failure or state.position >= end:
            return False
        return state.held_bytes < self._share() // 2 and state.held < RECORDS_MAX // 2

    def following(self, number: int, end: int) -> PartitionState | None:
        """Returns the partition, if it is served and the member has taken all below `end`. Any thread."""
        state = self.states.get(number)
        if state is None or state.position < end or not state.open or state.failure:
            return None
        return state

    def takes_all(self, number: int) -> PartitionState | None:
        """Returns the partition, if the member wants all events of it. Any thread."""
        return self.states.get(number) if self._listener.matcher is None else None

    def _is_full(self, state: PartitionState) -> bool:
        held, most = state.held_bytes, self._config.buffer_bytes_max
        if state.held >= RECORDS_MAX:
            return True
        return held >= self._share() and (
            held >= most // 2 or sum(partition.held_bytes for partition in self.states.values()) >= most
        )

    def _share(self) -> int:
        """Returns the bytes that one partition may hold."""
        return self._config.buffer_bytes_max // max(1, len(self.states))

    # -- for the reader: partitions

    def open(self, numbers: Sequence[int], starts: Mapping[int, Start]) -> None:
        """These partitions were assigned."""
        topic = self.subscription.topic
        opened = [
            self._lost.opened(topic, number, starts[number].offset, starts[number].metadata) for number in numbers
        ]
        self._listener.opened(opened)
        for state in opened:
            self._hand_over.opened(state.number)
            self.states[state.number] = state
            if not starts[state.number].committed:
                state.tracker.changes += 1
        if any(state.tracker.changes for state in opened):  # this process knows more than Kafka: commit that
            self.commits.schedule_commit()
        if self._halted is not None:
            self.halt(self._halted)

    async def drain(self, numbers: Sequence[int], limit_s: float) -> bool:
        """Drain these partitions for up to `limit_s`. Returns whether `release` will have something to commit."""
        mine = self._mine(numbers)
        if mine:
            await self._listener.drain(mine, limit_s)
        return self._commits_last and any(state.tracker.changes != state.committed for state in mine)

    async def release(self, numbers: Sequence[int]) -> bool:
        """Commit these partitions, which are drained, and give them up. Returns whether Kafka was silent, and
        some could not be committed."""
        async with self._releasing:  # a second call returns only when the first has committed them
            mine, silent, left = self._mine(numbers), self.commits.silent, []
            for state in mine:
                self._pop(state)
            # Popped before the commit: a request for a commit that is still waiting is then not sent.
            if self._commits_last:
                refused = await self._commit_now(mine)
                left = [state for state in mine if state.number in refused]
                silent = silent or self.commits.silent
                self._lost.keep(left)
                if silent:
                    self._hand_over.begin(left)
            return silent and bool(left)

    async def _commit_now(self, states: list[PartitionState]) -> set[int]:
        subscription, losses = self.subscription, self._losses
        # They are not in `states` any more, or never were. After a loss, a confirmation is one for other partitions.
        return await self._group_offsets.commit_now(
            subscription.group, offsets(states), lambda: self._may_commit and self._losses == losses, subscription.label
        )

    async def lose(self, numbers: Sequence[int], drain_s: float) -> None:
        """Others may own these partitions already: no commit, unless Kafka was silent and still has what it had."""
        self._losses += 1
        mine = self._mine(numbers)
        await self._listener.drain(mine, drain_s)
        for state in mine:
            self._pop(state)
        self._lost.keep(mine)
        if self.commits.silent and self._commits_last:
            self._hand_over.begin(mine)
        # Only after the drain: it ends `waiting`, and first attempts would start again.
        if not self.states:
            self.commits.forget()

    def fail(self, number: int, reason: str) -> None:
        """Stop serving this partition, although it is owned; the status reports the reason."""
        state = self.states.get(number)
        if state is None or state.failure:
            return
        state.failure = reason
        log.error(
            "partition stopped",
            subscription=self.subscription.label,
            partition=number,
            reason=reason,
            hint=f"delete the {self.subscription.kind} and add it again, "
            "with penstock.dev/start: earliest to get all events that the topic has now",
        )
        self._listener.failing()

    def _on_commit_requested(self) -> None:
        if self._joined is not None:
            self._joined.when_confirmed(self)

    def renew(self) -> None:
        """Commit all again. Kafka deletes offsets of a group without members that were not committed for some days."""
        for state in self.states.values():
            state.tracker.changes += 1
        self.commits.schedule_late_commit()

    def send_commit(self) -> None:
        """Send the commit that was requested."""
        self.commits.send_requested()

    def _send(self, places: list[TopicPartition], answered: Answered) -> None:
        claim = self._claim([place.partition for place in places])
        self._group_offsets.begin_commit(self.subscription.group, places, claim, answered)

    def close(self) -> None:
        """It has left."""
        self._hand_over.end()
        self.commits.detach()
        self.states.clear()

    @property
    def _may_commit(self) -> bool:
        """Not after its group was deleted: a commit would create it again."""
        return self._commits_last and self._joined is not None and self._joined.confirmed_lately

    def _claim(self, numbers: Iterable[int]) -> Claim:
        states = {number: self.states[number] for number in numbers}
        return lambda: self._may_commit and all(self.states.get(number) is state for number, state in states.items())

    def _mine(self, numbers: Sequence[int]) -> list[PartitionState]:
        return [self.states[number] for number in numbers if number in self.states]

    def _pop(self, state: PartitionState) -> None:
        if self.states.get(state.number) is state:
            del self.states[state.number]
