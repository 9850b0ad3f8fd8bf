"""Which duplicates the checker excuses: of what Kafka did not have as settled, around a fault that explains it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.ledger.checker import Verdict, check
from tests.support.ledger.facts import Committed, Fact, Fault, Paused, Received, Stored
from tests.unit.support.ledger.made_up import RULES, TOPIC, clean_ledger, deliver_again, find


def _judge(facts: list[Fact]) -> Verdict:
    return check(facts, RULES)


def _committed_late(facts: list[Fact]) -> list[Fact]:
    """Nothing of ns/unordered is committed before everything has come."""
    end_s = max(fact.answered_s for fact in facts if isinstance(fact, Received)) + 100
    return [
        replace(fact, time_s=end_s + fact.offset) if isinstance(fact, Committed) and fact.group == "kafka.u3" else fact
        for fact in facts
    ]


def test_kill_explains_what_it_may() -> None:
    """Settled 0.9 s before it, in flight during it, and one more attempt than the policy allows."""
    facts = _committed_late(clean_ledger())
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    again = [fact for fact in deliver_again(facts) if fact not in facts]
    for from_s, to_s in [(visit.answered_s + 0.9, visit.answered_s + 1), (visit.time_s + 0.001, visit.time_s + 0.002)]:
        verdict = _judge([*facts, *again, Fault("kill", from_s, to_s, 7)])
        assert verdict.violations == ()
        assert (verdict.report.duplicates, verdict.report.seed, verdict.report.faults) == (1, 7, {"kill": 1})
    tried = find(facts, Received, subscription="ns/keyed", id="e30")
    more = replace(tried[-1], attempt=5, time_s=tried[-1].time_s + 0.0001)
    for kind in ("kill", "kafka"):
        assert _judge([*facts, more, Fault(kind, tried[1].time_s, tried[1].answered_s)]).violations == ()


@pytest.mark.parametrize(
    ("pause_s", "attempt", "explained"),
    [
        (None, 1, False),  # nobody paused: Kafka's failure is no excuse
        (0.45, 1, True),  # settled shortly before the pause
        (0.55, 1, False),
        (-0.005, 1, True),  # in flight when it paused
        (-0.02, 1, False),  # a first attempt after the pause
        (-0.02, 2, True),  # a retry after the pause
    ],
)
def test_failure_of_kafka_explains_what_was_open_when_the_worker_paused(
    pause_s: float | None, attempt: int, explained: bool
) -> None:
    """`pause_s`: after the event was answered, which took 0.01 s."""
    facts = _committed_late(clean_ledger())
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    facts = [replace(fact, attempt=attempt) if fact == visit else fact for fact in facts]
    again = [fact for fact in deliver_again(facts) if fact not in facts]
    fault = Fault("kafka", visit.time_s - 3, visit.answered_s + 9, 7)
    pauses = [] if pause_s is None else [Paused("ns/unordered", visit.answered_s + pause_s)]
    assert bool(_judge([*facts, *again, fault, *pauses]).of("duplicate")) != explained
    elsewhere = [replace(pause, subscription="ns/keyed") for pause in pauses]
    assert _judge([*facts, *again, fault, *elsewhere]).of("duplicate")


@pytest.mark.parametrize("kind", ["kill", "freeze", "kafka"])
@pytest.mark.parametrize(
    ("offset", "settled", "after_s", "explained"),
    [
        (0, (), 1.0, True),
        (1, (), 1.0, False),
        (0, (1, 2), 1.0, True),
        (0, (2, 0), 1.0, False),
        (1, (), 51.0, True),
    ],
    ids=["not committed", "committed", "others are", "in the metadata", "committed when it had come again"],
)
def test_no_fault_explains_what_kafka_had_as_settled(
    kind: str, offset: int, settled: tuple[int, ...], after_s: float, explained: bool
) -> None:
    """The event comes 50 s after its answer, which came at the fault. `offset`, `settled`: relative to the event's."""
    facts = _committed_late(clean_ledger())
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    place = find(facts, Stored, id="e5")[0]
    commit = Committed(
        "kafka.u3",
        TOPIC,
        place.partition,
        place.offset + offset,
        visit.answered_s + after_s,
        [place.offset + n for n in settled],
    )
    fault = Fault(kind, visit.answered_s, visit.answered_s + 0.1)
    verdict = _judge([*deliver_again(facts), commit, fault, Paused("ns/unordered", visit.answered_s)])
    assert bool(verdict.of("duplicate")) != explained


@pytest.mark.parametrize(("resumed_s", "heard_s", "explained"), [(49, 51, True), (51, 52, False), (48, 49, False)])
def test_frozen_worker_repeats_what_others_have_committed_until_it_hears_of_it(
    resumed_s: float, heard_s: float, explained: bool
) -> None:
    """The event comes again 50 s after its answer, which came when the worker was frozen."""
    facts = clean_ledger()
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    fault = Fault("freeze", visit.answered_s, visit.answered_s + heard_s, resumed_s=visit.answered_s + resumed_s)
    assert bool(_judge([*deliver_again(facts), fault]).of("duplicate")) != explained
