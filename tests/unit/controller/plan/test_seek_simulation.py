"""A seek whose controller may die at every step, while workers come, go, deliver and commit."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from controller.plan.actions import Action, FindOffsets, GroupState, MoveOffsets
from knative.contract.records import WorkerState
from knative.contract.seeks import TRANSITIONS, Move, SeekPhase
from tests.unit.controller.seek_worlds import GROUP, OBJECTS, UID, seen, served, working
from tests.unit.controller.worlds import Kafka, reset


class _Workers:
    """Workers that follow the contract, deliver and commit, each at a time of its own."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.applied: dict[str, tuple[bool, str]] = {}  #: worker -> (stopped, seek) as it has read it
        self.first: dict[int, int] = {}  #: partition -> where delivery went on after the seek

    def follow(self, name: str) -> None:
        """Read the contract; what was remembered is forgotten."""
        record = self.kafka.world.subscriptions[UID]
        self.applied[name] = record.stopped, record.seek
        self.report()

    def leave(self, name: str) -> None:
        """Stop for good."""
        self.applied.pop(name, None)
        self.report()

    def deliver(self, name: str, partition: int) -> None:
        """Deliver one event and commit it, unless stopped."""
        if self.applied.get(name, (True, ""))[0]:
            return
        at = self.kafka.offsets[GROUP][partition]
        if self.applied[name][1] == "r-again":
            self.first.setdefault(partition, at)
        self.kafka.offsets[GROUP][partition] = min(at + 1, self.kafka.ends[partition])

    def report(self) -> None:
        """What the leader sees."""
        states = {
            name: working(self.kafka, WorkerState.STOPPED if stopped else WorkerState.RUNNING, seek, name)
            for name, (stopped, seek) in self.applied.items()
        }
        live = any(not stopped for stopped, _ in self.applied.values())
        self.kafka.groups[GROUP] = GroupState.LIVE if live else GroupState.EMPTY
        seen(self.kafka, *states.values())


STEPS = st.one_of(
    st.tuples(st.just("lead"), st.integers(0, 3)),  # a leader carries out so many actions, and dies
    st.tuples(st.sampled_from(["follow", "leave"]), st.sampled_from("ab")),
    st.tuples(st.just("deliver"), st.sampled_from("ab"), st.integers(0, 1)),
    st.tuples(st.just("store"), st.integers(0, 1)),
)


@example(steps=[("lead", 3)] * 4, to="earliest")  # nobody stops
@example(  # a worker that appears late, and commits between the move and the start
    steps=[("lead", 3), ("lead", 3), ("follow", "a"), ("lead", 3), ("lead", 3), ("deliver", "b", 0)], to="earliest"
)
@given(steps=st.lists(STEPS, max_size=40), to=st.sampled_from(["earliest", "latest"]))
def test_offsets_are_moved_once_whenever_the_controller_dies(steps: list[tuple[Any, ...]], to: str) -> None:
    kafka, wish = served(), reset(to=to)
    workers = _Workers(kafka)
    workers.follow("a")
    phases = [SeekPhase.STOPPING]
    recorded: set[tuple[Move, ...]] = set()

    def lead(count: int) -> bool:
        actions: list[Action] = kafka.decide(*OBJECTS, wish)
        for action in actions[:count]:
            if isinstance(action, FindOffsets | MoveOffsets):
                assert all(stopped for stopped, _ in workers.applied.values()), "a worker still commits"
            kafka.act(action)
        seek = kafka.world.seeks.get("r-again")
        if seek is not None and seek.phase is not phases[-1]:
            assert seek.phase in TRANSITIONS[phases[-1]]
            phases.append(seek.phase)
        if seek is not None and seek.moves:
            recorded.add(seek.moves)
        return bool(actions)

    for step in steps:
        match step:
            case ("lead", count):
                lead(count)
            case ("follow", name):
                workers.follow(name)
            case ("leave", name):
                workers.leave(name)
            case ("deliver", name, partition):
                workers.deliver(name, partition)
            case (_, partition):
                kafka.ends[partition] += 1
    for _ in range(12):  # from here on nobody dies
        for name in "ab":
            workers.follow(name)
        lead(1)
    for name in "ab":
        workers.follow(name)
    for partition in (0, 1):
        workers.deliver("a", partition)
    assert phases == [SeekPhase.STOPPING, SeekPhase.MOVING, SeekPhase.STARTING, SeekPhase.DONE]
    assert len(recorded) == 1, "new offsets are worked out once"
    assert workers.first == {move.partition: move.new for move in recorded.pop()}
