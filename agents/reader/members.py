"""Hands what is read of one topic to all of its members in this process: Triggers, or Subscriptions.

    TopicReader --ranges--> take ---------+--> Member.take  (for each member)
    CatchUp ------ranges--> take_missed --+

What a member cannot take, because it began behind or holds too much, it gets from `CatchUp` later. The rule of
`agents/reader/ranges` makes both ways safe, in any order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence

import structlog

from agents.bounded_wait import at_most
from agents.config import DeliveryConfig
from agents.offsets.group_offsets import GroupOffsets, Starts
from agents.offsets.partition import PartitionState
from agents.reader import slices
from agents.reader.catch_up import CatchUp, Taken
from agents.reader.look_back import look_at_each
from agents.reader.member import Member
from agents.reader.ranges import Range, first_offset, parts
from agents.reader.topic_reader import TopicReader
from agents.timing import LOOK_S, RENEW_S
from knative.ports import Observe
from tables.clock import now_s
from tables.kafka.errors import KafkaFailed
from tables.timing import CLOSE_S

log = structlog.get_logger(__name__)


class Members:
    """All members of one topic. Event loop only, except for `quickest`, `lone` and `confirmed_lately`."""

    def __init__(
        self,
        topic: str,
        group: str,
        client_name: str,
        config: DeliveryConfig,
        group_offsets: GroupOffsets,
        observe: Observe,
        fatal: Callable[[BaseException], None],
        emptied: Callable[[Members], None],
    ) -> None:
        """`emptied`: its last member has left."""
        self.topic = topic
        self.fatal = fatal
        self._emptied = emptied
        self._observe = observe
        self._group_offsets = group_offsets
        self._members: list[Member] = []
        self._leaving: list[Member] = []  # they take nothing more, and have partitions until they are released
        self._owned: set[int] = set()  # partitions that are open
        self._ends: dict[int, int] = {}  # partition -> the end of what the reader has handed over
        self._reader = TopicReader(topic, group, client_name, config, self)
        self._catch_up = CatchUp(topic, client_name, config, self)
        self._turn: tuple[Member, int] | None = None
        self._turns: dict[tuple[str, int], int] = {}  # (uid, partition) -> number of its last turn
        self._turns_made = 0
        self._opens = 0  # how often a member was given partitions
        self._log_ends: dict[int, tuple[int, int]] = {}  # partition -> its end as all know it, and `_opens` then
        self._work = slices.Slices(fatal)  # what the reader has reported
        # How long a confirmation holds: others own nothing before a session ends.
        self._confirmed_s = config.expelled_after_s / 2
        self._confirmed_at = -self._confirmed_s
        self._confirmation = asyncio.Event()  # the next one
        self._renewed_at = time.monotonic()
        self._unconfirmed: list[Member] = []  # they have a commit to send
        self._opening: dict[Member, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        #: One change of the partitions or members at a time.
        self._lock = asyncio.Lock()

    @property
    def rebalances(self) -> Mapping[str, int]:
        """See `Member`, also for the next."""
        return self._reader.rebalances

    @property
    def poll_age_s(self) -> float:
        return self._reader.poll_age_s

    async def stop(self) -> None:
        """End both readers; all members have left."""
        if self._looking is not None:
            self._looking.cancel()
        await self._catch_up.stop()
        await self._reader.stop(0.0)

    # -- members

    def join(self, member: Member) -> None:
        """Read for this member too, from the partitions that are open and from those that will be."""
        loop = asyncio.get_running_loop()
        self._members.append(member)
        if self._looking is None:
            self._looking = loop.create_task(self._look_back())
            self._reader.start()
        task = loop.create_task(self._open_for(member))
        self._opening[member] = task
        task.add_done_callback(lambda _: self._opening.pop(member, None))

    async def _open_for(self, member: Member) -> None:
        try:
            while member in self._members:
                try:
                    await self._open_missing(member)
                    return
                except KafkaFailed as problem:
                    label = member.subscription.label
                    log.warning(
                        "the offsets cannot be read; the worker tries again", subscription=label, reason=str(problem)
                    )
                    await asyncio.sleep(LOOK_S)
        except Exception as problem:
            self.fatal(problem)

    async def _open_missing(self, member: Member) -> None:
        """Open for it the partitions that are open for others. Raises KafkaFailed."""
        missing = sorted(self._owned - member.states.keys())
        if not missing:
            return
        # Not under the lock, because Kafka may take long to answer, and a loss of partitions must not wait for that. If
        # they come back meanwhile, `open` reads for this member too.
        starts = await self._read([member], missing)
        async with self._lock:
            missing = sorted((self._owned - member.states.keys()).intersection(missing))
            if missing and member in self._members:
                self._open(member, missing, starts)
                self._wake_if_behind(member)

    async def leave(self, member: Member, drain_s: float) -> None:
        """Drain and commit its partitions, and read for it no more."""
        if member not in self._members:
            return
        opening = self._opening.pop(member, None)
        if opening is not None:
            opening.cancel()
        # Not under the lock, because a rebalance that drains others must not delay it. A rebalance may release some of
        # its partitions meanwhile.
        self._members.remove(member)
        self._leaving.append(member)
        try:
            if await member.drain(list(member.states), drain_s):
                await self._confirm()
            await member.release(list(member.states))
        finally:  # also when it takes too long and is cut off
            self._leaving.remove(member)
            member.close()
            self._turns = {turn: last for turn, last in self._turns.items() if turn[0] != member.subscription.uid}
            if not self._members and not self._leaving:
                self._emptied(self)

    def _wake_if_behind(self, member: Member) -> None:
        if any(state.position < self._ends.get(number, 0) for number, state in member.states.items()):
            self._catch_up.wake()

    async def _look_back(self) -> None:
        try:
            await look_at_each(self._members, self._group_offsets)
        except Exception as problem:
            self.fatal(problem)

    # -- the assignment

    async def open(self, numbers: Sequence[int]) -> dict[int, int]:
        """See `MembersPort`, also for the next."""
        async with self._lock:
            self._owned.update(numbers)
            members = [member for member in self._members if not member.states.keys() & set(numbers)]
            try:
                group_starts = await self._read(members, numbers) if members else {}
            except BaseException:
                self._gone(numbers)
                raise
            for member in members:
                if member in self._members:  # it may have left meanwhile
                    self._open(member, numbers, group_starts)
            starts = {}
            for number in numbers:
                positions = [m.states[number].position for m in self._members if number in m.states]
                starts[number] = self._ends[number] = first_offset(positions) if positions else 0
            for member in self._members:
                self._wake_if_behind(member)
            return starts

    def _open(self, member: Member, numbers: Sequence[int], starts: Starts) -> None:
        self._opens += 1
        member.open(numbers, starts[member.subscription.group])

    async def _read(self, members: Sequence[Member], numbers: Sequence[int]) -> Starts:
        return await self._group_offsets.read(self.topic, [member.subscription for member in members], numbers)

    async def drain(self, numbers: Sequence[int], limit_s: float) -> bool:
        async with self._lock:
            self._gone(numbers)
            return any(await asyncio.gather(*(member.drain(numbers, limit_s) for member in self._all())))

    async def release(self, numbers: Sequence[int]) -> bool:
        async with self._lock:
            return any(await asyncio.gather(*(member.release(numbers) for member in self._all())))

    async def lose(self, numbers: Sequence[int], limit_s: float) -> None:
        async with self._lock:
            self._gone(numbers)
            await asyncio.gather(*(member.lose(numbers, limit_s) for member in self._all()))

    def _all(self) -> list[Member]:
        return [*self._members, *self._leaving]

    def _gone(self, numbers: Sequence[int]) -> None:
        self._owned.difference_update(numbers)
        for number in numbers:
            self._ends.pop(number, None)

    # -- records

    def take(self, ranges: list[Range]) -> None:
        self._work.add(self._take(ranges))

    def _take(self, ranges: list[Range]) -> Iterator[None]:
        try:
            for range_ in ranges:
                if range_.number in self._owned:
                    yield from self._take_one(range_)
        finally:
            self._reader.taken(sum(range_.size for range_ in ranges))

    def _take_one(self, range_: Range) -> Iterator[None]:
        """Give a range to each member."""
        number, count, members, opens = range_.number, len(range_.records), tuple(self._members), self._opens
        missed = []
        for member in members:
            yield
            at_once = count == 1 or count <= member.at_once
            if member.take(range_) if at_once else (yield from self._take_in_portions(member, range_)):
                missed.append(member)
        followers = [member for _, member in self._followers(number, range_.start)] if missed else []
        # It was read before the reader saw that all are full. To read it again would cost much more.
        forced = followers and all(member in missed for member in followers) and count <= followers[0].at_once
        if forced and not followers[0].take(range_, full=True):
            missed.remove(followers[0])
        # Meanwhile, others may have owned the partition and settled more.
        self._ends[number] = max(self._ends.get(number, 0), range_.end)
        # One may have joined meanwhile, or was given the partition when it had had its turn.
        if missed or opens != self._opens or members != tuple(self._members):
            self._catch_up.wake()

    @staticmethod
    def _take_in_portions(member: Member, range_: Range) -> Generator[None, None, bool]:
        """Give a range to a member whose filter may take long. If it does, the member gets the rest from `CatchUp`, and
        the others do not wait for it. Returns whether it has not taken all."""
        spent_s = 0.0
        for part in parts(range_, member.at_once):
            began_s = time.thread_time()  # CPU time: on a busy machine, nobody is slow for being made to wait
            if member.take(part):
                return True
            spent_s += time.thread_time() - began_s
            if spent_s >= slices.SLICE_S and part.end < range_.end:
                return True
            yield
        return False

    def take_missed(self, ranges: list[Range]) -> Taken:
        """See `CatchUpPort`, also for the next."""
        turn = self._turn
        if turn is None or turn[0] not in self._members:
            return Taken.DONE
        until = time.monotonic() + slices.SLICE_S
        # The one whose turn it is comes first: time may not be left for the others, which have their own turns.
        for member in (turn[0], *(member for member in self._members if member is not turn[0])):
            for part in (part for range_ in ranges for part in parts(range_, member.at_once)):
                if member.take(part) or time.monotonic() >= until:
                    break
            if time.monotonic() >= until:
                break
        member, number = turn
        state = member.states.get(number)
        if state is None or state.position >= self._ends.get(number, 0):
            return Taken.DONE
        return Taken.PART if ranges and state.position < ranges[-1].end else Taken.ALL

    def next_turn(self) -> tuple[int, int] | None:
        waiting = [
            (self._turns.get((member.subscription.uid, number), 0), place, number)
            for place, member in enumerate(self._members)
            for number in member.states
            if member.behind(self._ends.get(number, 0), number)
        ]
        if not waiting:
            self._turn = None
            return None
        _, place, number = min(waiting)
        member = self._members[place]
        self._turns_made += 1
        self._turns[member.subscription.uid, number] = self._turns_made
        self._turn = (member, number)
        return number, member.states[number].position

    @property
    def any_behind(self) -> bool:
        return any(
            state.position < self._ends.get(number, 0) and not state.failure
            for member in self._members
            for number, state in member.states.items()
        )

    def skip(self, number: int, low: int) -> None:
        self._work.add(self._skip(number, low))

    def _skip(self, number: int, low: int) -> Iterator[None]:
        yield
        for member in self._members:
            count = member.skip(number, low)
            if count:
                label = member.subscription.label
                log.warning("records expired before they were read", subscription=label, partition=number, count=count)
                self._observe.expired(label, count)

    def truncated(self, number: int, end: int) -> None:
        self._work.add(self._truncated(number, end))

    def _truncated(self, number: int, end: int) -> Iterator[None]:
        yield
        self._ends[number] = end
        for member in self._members:
            state = member.states.get(number)
            if state is not None and state.position > end:  # the others read a new log, or did not get so far
                reason = f"offset {state.position} is beyond the end {end}: the topic was created again or truncated"
                member.fail(number, reason)

    def ends(self, heads: Collection[PartitionState]) -> None:
        if time.monotonic() - self._renewed_at > RENEW_S:
            self._renewed_at = time.monotonic()
            for member in self._members:
                member.renew()
        news = [head for head in heads if self._log_ends.get(head.number) != (head.log_end_offset, self._opens)]
        for head in news:
            self._log_ends[head.number] = head.log_end_offset, self._opens
            for member in self._members:
                state = member.states.get(head.number)
                if state is not None:
                    state.log_end_offset = head.log_end_offset

    def quickest(self, number: int) -> PartitionState | None:
        end = self._ends.get(number, 0)
        states = (state for member in tuple(self._members) if (state := member.following(number, end)))
        return min(states, key=lambda state: state.held_bytes, default=None)

    def lone(self, number: int) -> PartitionState | None:
        members = tuple(self._members)
        return members[0].takes_all(number) if len(members) == 1 else None

    def _followers(self, number: int, end: int) -> list[tuple[PartitionState, Member]]:
        """Returns who has taken all below `end` and what it has of the partition, the least held first. Any thread."""
        pairs = [(state, member) for member in tuple(self._members) if (state := member.following(number, end))]
        return sorted(pairs, key=lambda pair: pair[0].held_bytes)

    # -- commits

    @property
    def confirmed_lately(self) -> bool:
        return now_s() - self._confirmed_at < self._confirmed_s

    async def _confirm(self) -> None:
        """Return when the assignment is confirmed, or at the latest after a limit."""
        if not self.confirmed_lately:
            self._reader.confirm()
            await at_most(self._confirmation.wait(), CLOSE_S)

    def when_confirmed(self, member: Member) -> None:
        if self.confirmed_lately:
            member.send_commit()
        else:
            self._unconfirmed.append(member)
            self._reader.confirm()

    def confirmed(self, at: float) -> None:
        self._confirmed_at = at
        self._confirmation.set()
        self._confirmation = asyncio.Event()
        waiting, self._unconfirmed = self._unconfirmed, []
        for member in waiting:
            member.send_commit()
