"""What a leader keeps of workers and of Kafka, and what it finds changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.plan.actions import ObservedKafka, ObservedTopic, Scope
from controller.plan.parts import Parts
from controller.term import Term
from knative.contract.broker_secrets import SecretProblem
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from tests.unit.controller.worlds import CONFIG

ROW = WorkerSubscription(1, (0,), WorkerState.RUNNING)
WORKER = WorkerStatus("w", 100.0, "all", {"a": ROW, "b": ROW})
BROKEN = replace(WORKER, secrets={"ns/s": SecretProblem("KafkaSecretInvalid", "m")})


@pytest.mark.parametrize(
    ("before", "after", "now", "dirty", "secrets"),
    [
        (WORKER, WORKER, 110.0, set(), False),
        (WORKER, replace(WORKER, time=102.0), 111.0, set(), False),
        (WORKER, WORKER, 110.1, {"a", "b"}, False),
        (WORKER, None, 100.0, {"a", "b"}, False),
        (None, WORKER, 100.0, {"a", "b"}, False),
        (WORKER, replace(WORKER, subscriptions={"a": ROW, "b": replace(ROW, generation=2)}), 100.0, {"b"}, False),
        (WORKER, replace(WORKER, subscriptions={"a": ROW}), 100.0, {"b"}, False),
        (WORKER, BROKEN, 100.0, set(), True),
        (BROKEN, BROKEN, 110.1, {"a", "b"}, True),
        (BROKEN, None, 100.0, {"a", "b"}, True),
    ],
)
def test_what_workers_say_in_another_way(
    before: WorkerStatus | None, after: WorkerStatus | None, now: float, dirty: set[str], secrets: bool
) -> None:
    term = Term(1)
    term.see_workers({} if before is None else {"w": before}, 100.0)
    term.dirty = set()
    assert term.see_workers({} if after is None else {"w": after}, now) is secrets
    assert term.dirty == dirty


def test_what_kafka_says_of_some_things_leaves_the_others() -> None:
    term, topic = Term(1), ObservedTopic(1, 1)
    asked = Scope(frozenset({"a", "b"}), (("g", "a"),), frozenset())
    term.observe(asked, ObservedKafka({"a": topic, "b": topic}, {"g": frozenset({0})}))
    term.observe(Scope(frozenset({"b", "c"}), (), frozenset()), ObservedKafka({"c": topic}))
    assert term.observed is not None
    assert (set(term.observed.topics), set(term.observed.committed)) == ({"a", "c"}, {"g"})
    assert term.topics == {"a", "b", "c"}


def test_what_has_changed_has_its_turn_before_the_rest_and_so_has_each_namespace() -> None:
    """The namespace is the first letter."""
    term = Term(1, queue={"a1", "a2", "a3", "b1"}, rest={"c1", "a1", "a4"})
    turns = []
    while not term.is_done:
        for _ in range(2):  # as long as these are decided about, nothing changes
            term.take_turn(2, lambda uid: uid[0])
        turns.append(term.focus)
        term.focus = set()
    assert turns == [{"a1", "b1"}, {"a2", "a3"}, {"a4", "c1"}]


@pytest.mark.parametrize(
    ("asked", "parts", "expected"),
    [
        (Scope(frozenset({"a"}), (), frozenset()), True, False),
        (Scope(frozenset({"b"}), (), frozenset()), True, True),
        (Scope(frozenset(), (("g", "a"),), frozenset()), True, True),
        (Scope(frozenset(), (), frozenset({"g"})), True, True),
        (Scope(frozenset({"b"}), (), frozenset({"g"})), False, False),
    ],
)
def test_kafka_is_asked_about_what_is_not_known(asked: Scope, parts: bool, expected: bool) -> None:
    term = Term(1, parts=Parts(CONFIG) if parts else None)
    assert term.must_ask(asked), "nothing is known"
    term.observe(Scope(frozenset({"a"}), (), frozenset()), ObservedKafka())
    assert term.must_ask(asked) is expected
    term.look = True
    assert term.must_ask(asked)
