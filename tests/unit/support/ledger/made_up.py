"""A made-up ledger without a fault, in which tests plant theirs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TypeVar

from knative.delivery.policy import DeliveryOrder
from tests.support.ledger.facts import Committed, Dead, Fact, Received, Sent, Stored
from tests.support.ledger.history import Rule

F = TypeVar("F")

TOPIC = "orders"
RULES = [
    Rule("ns/ordered", DeliveryOrder.ORDERED, 3, "kafka.u1", TOPIC),
    Rule("ns/keyed", DeliveryOrder.KEY_ORDERED, 3, "kafka.u2", TOPIC),
    Rule("ns/unordered", DeliveryOrder.UNORDERED, 3, "kafka.u3", TOPIC),
]
EVENTS, KEYS, PARTITIONS = 60, 6, 3


def clean_ledger(seed: int = 1) -> list[Fact]:
    """A run without a fault: failures, retries, one dead letter, commits that follow the watermark."""
    chance = random.Random(seed)
    facts: list[Fact] = []
    ends, now_s = [0] * PARTITIONS, 1000.0
    for number in range(EVENTS):
        key = number % KEYS
        hashes = (f"b{number}", f"a{number}")
        facts.append(Sent(f"e{number}", f"k{key}", number // KEYS, 202, now_s, now_s + 0.001, *hashes))
        partition = key % PARTITIONS
        facts.append(Stored(TOPIC, partition, ends[partition], f"e{number}", f"k{key}", hashes[0]))
        ends[partition] += 1
        now_s += 0.002
        for rule in RULES:
            dies = number == 30 and rule is RULES[1]
            failures = rule.retry + 1 if dies else chance.choice([0, 0, 0, 1, 2])
            for attempt in range(1, failures + (0 if dies else 1) + 1):
                status = 500 if attempt <= failures else 200
                visit = Received(
                    rule.subscription, f"e{number}", attempt, status, now_s, now_s + 0.01, hashes[0], hashes[1]
                )
                facts.append(visit)
                now_s += 0.02
            if dies:
                facts.append(Dead(rule.subscription, f"e{number}", "retries used up", now_s, hashes[0]))
            facts.append(Committed(rule.group, TOPIC, partition, ends[partition], now_s + 0.005))
            now_s += 0.01
    return facts


def find(facts: list[Fact], kind: type[F], **values: object) -> list[F]:
    """The facts of this kind with these values."""
    return [f for f in facts if isinstance(f, kind) and all(getattr(f, name) == v for name, v in values.items())]


def deliver_again(facts: list[Fact]) -> list[Fact]:
    """The event e5 of ns/unordered comes once more, 50 s later."""
    visit = find(facts, Received, subscription="ns/unordered", id="e5", status=200)[0]
    return [*facts, replace(visit, attempt=9, time_s=visit.time_s + 50, answered_s=visit.answered_s + 50)]
