"""A topic with its Triggers, whose agents settle when a test says so. Without threads and without Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from agents.config import DeliveryConfig
from agents.offsets.group_offsets import Claim
from agents.offsets.late_commits import Start
from agents.offsets.offset_metadata import read
from agents.offsets.partition import Batch, Delivery, PartitionState
from agents.reader.member import Member
from agents.reader.members import Members
from agents.reader.ranges import Range, Record
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable
from tables.kafka.admin.answers import GroupOffset
from tests.support.fakes import CountingObserve
from tests.support.settling_listener import SettlingListener, settle

KINDS = ("a", "b", "c")
BUDGET = 20_000
SIZE = 1_000


class Agent(SettlingListener):
    """The agent and scheduler of one Trigger: takes batches when the test says so, and settles in any order."""

    def __init__(self, type_: str) -> None:
        super().__init__(type_)
        self.queue: list[list[Batch]] = []
        self.unsettled: list[Delivery] = []
        self.got: list[int] = []
        self.filtered = None

    def enqueue(self, batches: list[Batch]) -> None:
        self.queue.append(batches)

    def work(self, count: int) -> None:
        """Take what waits, then settle up to `count` of what is unsettled."""
        for batches in self.queue:
            for delivery in self.take(batches):
                self.got.append(delivery.offset)
                self.unsettled.append(delivery)
        self.queue.clear()
        for number in range(count, 0, -1):
            if self.unsettled:
                settle(self.unsettled.pop(number % len(self.unsettled)))

    def fatal(self, problem: BaseException) -> None:
        raise problem


class Groups:
    """The committed offsets of the groups, in memory."""

    def __init__(self, starts: Mapping[str, int]) -> None:
        self.offsets = {group: GroupOffset(start, "") for group, start in starts.items()}
        self.claims: list[Claim] = []

    async def read(self, topic: str, subscriptions: Sequence[Subscription], numbers: Sequence[int]) -> Any:
        groups = {subscription.group: self.offsets[subscription.group] for subscription in subscriptions}
        return {group: {0: Start(at.offset, at.metadata)} for group, at in groups.items()}

    async def committed(self, topic: str, group: str, numbers: Collection[int]) -> Mapping[int, GroupOffset]:
        return dict.fromkeys(numbers, self.offsets[group])

    async def commit_now(self, group: str, commits: Any, claim: Any, label: str) -> set[int]:
        for commit in commits:
            self.offsets[group] = GroupOffset(commit.offset, commit.metadata)
        return set()

    def begin_commit(self, group: str, commits: Any, claim: Claim, done: Any) -> None:
        """Never answered: nothing is committed before the partition is released."""
        self.claims.append(claim)


class World:
    """A topic with one partition and its Triggers, without threads: the test moves both readers."""

    def __init__(self, log: Mapping[int, str], starts: Sequence[int]) -> None:
        self.log, self.end = log, max(log, default=-1) + 1
        self.wants = [*KINDS, ""][: len(starts)] if len(starts) > 1 else [""]
        self.starts = starts
        self.groups = Groups({f"g{place}": start for place, start in enumerate(starts)})
        config = DeliveryConfig({"bootstrap.servers": "127.0.0.1:1"}, buffer_bytes_max=BUDGET)
        offsets: Any = self.groups
        self.emptied: list[Members] = []
        self.fanout = Members("t", "g", "c", config, offsets, CountingObserve(), _raise, self.emptied.append)
        self.agents = [Agent(kind) for kind in self.wants]
        self.config = config
        for place, agent in enumerate(self.agents):
            self.join(place, agent)
        self.position = 0

    def join(self, place: int, agent: Agent) -> None:
        subscription = Subscription(
            f"u{place}", 1, "ns", f"s{place}", "c", "b", "t", "d", 1, f"g{place}", Addressable("http://x/"),
            kind=TRIGGER,
        )  # fmt: skip

        def join(member: Member) -> Members:
            self.fanout.join(member)
            return self.fanout

        groups: Any = self.groups
        agent.member = Member(subscription, "c", self.config, agent, join, groups, CountingObserve())
        agent.member.start()

    async def assign(self) -> None:
        self.position = (await self.fanout.open([0]))[0]

    async def revoke(self) -> None:
        """All of it goes, with the last commits; what was not settled comes again."""
        await self.fanout.drain([0], 0.0)
        await self.fanout.release([0])
        for place, agent in enumerate(self.agents):
            agent.work(0)
            agent.unsettled.clear()
            committed = self.groups.offsets[f"g{place}"].offset
            agent.got = [offset for offset in agent.got if offset < committed or offset in self._settled(place)]
        await self.assign()

    async def lose(self) -> None:
        """All of it goes, without a commit, and comes back: what was settled is known here."""
        await self.fanout.lose([0], 0.0)
        for agent in self.agents:
            agent.work(0)
            agent.unsettled.clear()
        await self.assign()
        for agent in self.agents:
            tracker = agent.member.states[0].tracker
            agent.got = [offset for offset in agent.got if offset < tracker.committable or offset in tracker.settled]

    def _settled(self, place: int) -> set[int]:
        committed = self.groups.offsets[f"g{place}"]
        return set(read(committed.offset, committed.metadata).settled)

    def range(self, start: int, count: int, owner: PartitionState | None = None) -> Range:
        """`owner`: as the range of a lone Trigger, if there is one."""
        end = min(self.end, start + count)
        make = Record if owner is None else partial(Delivery, owner)
        records: Any = [
            make(offset, None, b"", _headers(kind), SIZE, 0)
            for offset, kind in self.log.items()
            if start <= offset < end
        ]
        return Range(0, start, end, records, SIZE * len(records), owner)

    def head(self, count: int) -> None:
        range_ = self.range(self.position, count, self.fanout.lone(0))
        if range_.end > range_.start:
            self.position = range_.end
            self.fanout.take([range_])

    def catch_up(self, count: int) -> None:
        turn = self.fanout.next_turn()
        if turn is not None:
            range_ = self.range(turn[1], count)
            if range_.end > range_.start:
                self.fanout.take_missed([range_])


def positions(member: Member) -> dict[int, int]:
    """The first offset that it has not taken, by partition."""
    return {number: state.position for number, state in member.states.items()}


def _raise(problem: BaseException) -> None:
    raise problem


def _headers(kind: str) -> list[tuple[str, bytes | None]]:
    return [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", kind.encode()), ("ce_specversion", b"1.0")]
