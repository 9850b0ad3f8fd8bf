"""The checker on a made-up ledger in which one subscription wants some of the events only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.ledger.checker import check
from tests.support.ledger.facts import Committed, Dead, Fact, Received, Sent, Stored
from tests.unit.support.ledger.made_up import RULES, TOPIC, clean_ledger, find


def _typed_ledger(facts: list[Fact]) -> list[Fact]:
    """A run in which `ns/keyed` wants the events of type `a` only, two of three, and no other one came to it."""
    typed = [
        replace(fact, type="b" if int(fact.id[1:]) % 3 == 1 else "a") if isinstance(fact, Sent) else fact
        for fact in facts
    ]
    others = {fact.id for fact in typed if isinstance(fact, Sent) and fact.type == "b"}
    return [
        fact
        for fact in typed
        if not (isinstance(fact, Received | Dead) and fact.subscription == "ns/keyed" and fact.id in others)
    ]


TYPED_RULES = [RULES[0], replace(RULES[1], wants=lambda sent: sent.type == "a"), RULES[2]]


def _deliver_what_does_not_pass(facts: list[Fact]) -> list[Fact]:
    other = find(facts, Received, subscription="ns/ordered", id="e7", status=200)[0]
    return [*facts, replace(other, subscription="ns/keyed", attempt=1)]


def _attempt_what_does_not_pass(facts: list[Fact]) -> list[Fact]:
    other = find(facts, Received, subscription="ns/ordered", id="e7", status=200)[0]
    return [*facts, replace(other, subscription="ns/keyed", attempt=1, status=500)]


def _dead_letter_what_does_not_pass(facts: list[Fact]) -> list[Fact]:
    return [*facts, replace(find(facts, Dead)[0], id="e7", body_hash="b7")]


def _lose_what_passes(facts: list[Fact]) -> list[Fact]:
    gone = find(facts, Received, subscription="ns/keyed", id="e8")
    return [fact for fact in facts if fact not in gone]


def _commit_over_what_passes(facts: list[Fact]) -> list[Fact]:
    visit = find(facts, Received, subscription="ns/keyed", id="e20", status=200)[0]
    return [
        *facts,
        Committed("kafka.u2", TOPIC, 2, find(facts, Stored, id="e20")[0].offset + 1, visit.answered_s - 0.005),
    ]


def _never_commit_what_does_not_pass(facts: list[Fact]) -> list[Fact]:
    """The last events of partition 1 are of the other type: they must be committed all the same."""
    late = find(facts, Committed, group="kafka.u2", partition=1)[-2:]
    return [fact for fact in facts if fact not in late]


@pytest.mark.parametrize("seed", range(3))
def test_what_does_not_pass_is_owed_to_nobody(seed: int) -> None:
    facts = _typed_ledger(clean_ledger(seed))
    verdict = check(facts, TYPED_RULES)
    assert (verdict.violations, verdict.report.unwanted) == ((), 0)
    assert check(facts, RULES).of("lost", "early-commit")


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (_deliver_what_does_not_pass, {"unwanted"}),
        (_attempt_what_does_not_pass, {"unwanted"}),
        (_dead_letter_what_does_not_pass, {"unwanted"}),
        (_lose_what_passes, {"lost", "early-commit"}),
        (_commit_over_what_passes, {"early-commit"}),
        (_never_commit_what_does_not_pass, {"lag"}),
    ],
)
def test_each_fault_of_a_filter_is_named(plant: Callable[[list[Fact]], list[Fact]], kinds: set[str]) -> None:
    verdict = check(plant(_typed_ledger(clean_ledger())), TYPED_RULES)
    assert {violation.kind for violation in verdict.violations} == kinds, str(verdict)
