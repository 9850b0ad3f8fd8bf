"""Any sequence of what may happen to commits: nothing that is due is forgotten, and nothing waits for ever."""

from __future__ import annotations

import asyncio

from confluent_kafka import KafkaError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.offsets.commit_state import CommitState, NextCommit
from agents.offsets.commits import Commits
from agents.offsets.partition import PartitionState
from penstock.virtual_loop import VirtualLoop
from tests.support.profiles import examples
from tests.unit.agents.offsets.committing import INTERVAL_S, REBALANCING, TIMEOUT_S, Notes, clean, fail, settle


class AnySequence(RuleBasedStateMachine):
    """Two partitions and Kafka, in any order of what may happen to commits."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.partitions = {0: clean(0), 1: clean(1)}
        self.gone: list[PartitionState] = []
        self.barriers: list[tuple[PartitionState, int, asyncio.Task[None]]] = []
        self.notes = Notes()
        self.stored: set[tuple[int, int, str]] = set()  # what Kafka has confirmed
        self.waiting = False
        self.commits = self.loop.run_until_complete(self._made())
        self.commits.attach(self.partitions)

    async def _made(self) -> Commits:
        return Commits("ns/s", INTERVAL_S, fail, self.notes.send, timeout_s=TIMEOUT_S, waiting=self._on_waiting)

    def _on_waiting(self, on: bool) -> None:
        assert on is not self.waiting, "each change once"
        self.waiting = on

    @property
    def _wanted(self) -> bool:
        """A commit is due or in flight."""
        machine = self.commits._machine
        return machine.next is not NextCommit.NONE or machine.state is not CommitState.NONE

    def _turn(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(number=st.integers(0, 1), within_s=st.sampled_from((None, 0.02)), then_s=st.sampled_from((0.0, INTERVAL_S)))
    def schedule(self, number: int, within_s: float | None, then_s: float) -> None:
        if number in self.partitions:
            settle(self.partitions[number])
            self.commits.schedule_commit(within_s)
            self._turn(then_s)

    @rule(number=st.integers(0, 1))
    def barrier(self, number: int) -> None:
        if number in self.partitions:
            partition = self.partitions[number]
            partition.tracker.failed(partition.tracker.committable, 1)
            task = self.loop.create_task(self.commits.barrier(partition))
            self.barriers.append((partition, partition.tracker.changes, task))
            self._turn()

    @rule(seconds=st.sampled_from((0.0, 0.02, INTERVAL_S, TIMEOUT_S)))
    def time_goes_by(self, seconds: float) -> None:
        self._turn(seconds)

    @rule(seconds=st.sampled_from((INTERVAL_S, TIMEOUT_S + 0.1, 60.0)))
    def frozen(self, seconds: float) -> None:
        self.loop.frozen(seconds)
        self._turn()

    @rule()
    def sent(self) -> None:
        before, was_in_flight = len(self.notes.sent), self.commits._machine.state is CommitState.SENT
        self.commits.send_requested()
        assert not (was_in_flight and len(self.notes.sent) > before), "one at a time"
        self._turn()

    @precondition(lambda self: self.notes.unanswered)
    @rule(error=st.sampled_from((None, None, REBALANCING, KafkaError(KafkaError._TIMED_OUT))))
    def answered(self, error: KafkaError | None) -> None:
        """Also those that nothing waits for, because their partitions were lost."""
        self._answer(error)

    def _answer(self, error: KafkaError | None) -> None:
        offsets, answered = self.notes.unanswered.pop(0)
        if error is None:
            self.stored.update((place.partition, place.offset, place.metadata or "") for place in offsets)
        answered(error)
        self._turn()

    @rule(number=st.integers(0, 1))
    def revoked(self, number: int) -> None:
        if number in self.partitions:
            self._go(self.partitions.pop(number))

    @rule()
    def lost(self) -> None:
        for partition in list(self.partitions.values()):
            self._go(self.partitions.pop(partition.number))
        self.commits.forget()
        assert not self.commits.waiting

    def _go(self, partition: PartitionState) -> None:
        self.gone.append(partition)
        for owner, _, task in self.barriers:
            if owner is partition:
                task.cancel()
        self._turn()

    @rule(number=st.integers(0, 1))
    def assigned(self, number: int) -> None:
        self.partitions.setdefault(number, clean(number))

    @rule()
    def joined_again(self) -> None:
        self.commits.detach()
        assert not self._wanted
        for partition in self.partitions.values():
            self._go(partition)
        self.partitions = {}
        self.notes.unanswered.clear()
        self.commits.attach(self.partitions)

    @invariant()
    def what_has_changed_is_due(self) -> None:
        dirty = any(p.tracker.changes != p.committed for p in self.partitions.values())
        assert self._wanted or not dirty

    @invariant()
    def what_counts_as_committed_is_stored(self) -> None:
        for p in self.partitions.values():
            if p.tracker.changes == p.committed > clean(p.number).committed:
                assert (p.number, p.tracker.committable, p.tracker.metadata()) in self.stored

    @invariant()
    def waiting_may_end(self) -> None:
        assert self.commits.waiting is self.waiting
        assert self._wanted or not self.waiting

    @invariant()
    def barriers_open_when_their_changes_are_committed(self) -> None:
        for partition, changes, task in self.barriers:
            if task.done() and not task.cancelled():
                assert partition.committed >= changes

    def teardown(self) -> None:
        """From wherever it is: when Kafka answers again, everything is committed and nothing waits."""
        try:
            for _ in range(4):
                self._turn(INTERVAL_S)
                self.sent()
                while self.notes.unanswered:
                    self._answer(None)
            assert all(p.committed == p.tracker.changes for p in self.partitions.values())
            assert not self.commits.waiting
            assert all(task.done() for *_, task in self.barriers)
        finally:
            for *_, task in self.barriers:
                task.cancel()
            self._turn()
            self.loop.close()


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = examples(300)
