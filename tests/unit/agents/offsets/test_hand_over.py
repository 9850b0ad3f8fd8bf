"""What is committed of lost partitions when Kafka answers again, and for how long it is tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from agents.offsets.group_offsets import Claim
from agents.offsets.hand_over import HandOver
from agents.offsets.late_commits import Start
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from penstock.virtual_loop import run
from tables.kafka.errors import KafkaUnavailable

SUBSCRIPTION = Subscription("u", 1, "ns", "s", "c", "ch", "t", "d", 2, "g", Addressable("http://x/"))


class Kafka:
    """Has offset 100 of each partition, unless it says something else. Does not answer the first `silent` questions."""

    def __init__(self, silent: int = 0, refuses: int = 0, **offsets: int) -> None:
        self.silent, self.refuses = silent, refuses
        self.offsets = {int(number[1:]): offset for number, offset in offsets.items()}
        self.asked = 0
        self.before_commit: Callable[[], None] = lambda: None

    async def starts(self, subscription: Subscription, numbers: Collection[int]) -> Mapping[int, Start]:
        self.asked += 1
        if self.asked <= self.silent:
            raise KafkaUnavailable("by a test")
        return {number: Start(self.offsets.get(number, 100), "") for number in numbers}

    async def commit(self, group: str, offsets: list[TopicPartition], claim: Claim) -> KafkaError | None:
        self.before_commit()
        if self.refuses or not claim():
            self.refuses -= 1
            return KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        self.offsets |= {place.partition: place.offset for place in offsets}
        return None


def lost(number: int) -> PartitionState:
    """Of which 100 was committed, and 100 to 104 are settled."""
    state = PartitionState("t", number, OffsetTracker(100))
    for offset in range(100, 105):
        state.tracker.add(offset)
        state.tracker.settle(offset)
    return state


def fail(problem: BaseException) -> None:
    raise AssertionError(problem)


def handed_over(kafka: Any, *states: PartitionState, opened: int | None = None) -> dict[int, int]:
    """What Kafka has afterwards. `opened`: comes back before Kafka answers."""

    async def main() -> None:
        hand_over = HandOver(SUBSCRIPTION, kafka, fail)
        hand_over.begin(states)
        if opened is not None:
            hand_over.opened(opened)
        await asyncio.sleep(60)
        assert hand_over._left == {}
        assert hand_over._task is None

    run(main())
    offsets: dict[int, int] = kafka.offsets
    return offsets


@pytest.mark.parametrize("kafka", [Kafka(), Kafka(silent=3), Kafka(refuses=2)], ids=["at once", "silent", "refuses"])
def test_commit_is_tried_until_kafka_has_it(kafka: Kafka) -> None:
    assert handed_over(kafka, lost(0), lost(1)) == {0: 105, 1: 105}


def test_what_others_have_committed_since_stays() -> None:
    assert handed_over(Kafka(p0=103), lost(0), lost(1)) == {0: 103, 1: 105}


def test_partition_that_is_here_again_commits_for_itself() -> None:
    assert handed_over(Kafka(silent=1), lost(0), lost(1), opened=0) == {1: 105}


def test_what_is_committed_is_not_asked_for() -> None:
    state, kafka = lost(0), Kafka()
    state.committed = state.tracker.changes
    assert (handed_over(kafka, state), kafka.asked) == ({}, 0)


@pytest.mark.parametrize("back", [True, False])
def test_nothing_is_committed_for_what_comes_back_in_the_last_moment_or_for_a_group_that_is_deleted(back: bool) -> None:
    kafka = Kafka()

    async def main() -> None:
        hand_over = HandOver(SUBSCRIPTION, kafka, fail)  # type: ignore[arg-type]
        kafka.before_commit = (lambda: hand_over.opened(0)) if back else hand_over.end
        hand_over.begin([lost(0)])
        await asyncio.sleep(60)
        assert hand_over._task is None

    run(main())
    assert kafka.offsets == {}
