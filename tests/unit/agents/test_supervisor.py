"""Which subscriptions a worker has no clients for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.supervisor import beyond
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable

WANTED = [
    Subscription(uid, 1, "ns", uid, "c", "ch", "t", "t.dlq", 1, f"g-{uid}", Addressable("http://x/")) for uid in "abcd"
]
TRIGGERS = [replace(one, uid=f"t-{one.uid}", kind=TRIGGER) for one in WANTED]
SHARED = [replace(one, uid=f"h-{one.uid}", shared_consumer=True) for one in WANTED]
STOPPED = [replace(one, uid=f"s-{one.uid}", stopped=True) for one in WANTED]
UNLISTED = [replace(wanted, uid=f"u-{wanted.uid}", unlisted=True) for wanted in WANTED]


@pytest.mark.parametrize(
    ("held", "most", "expected"),
    [
        ("", 4, ""),
        ("", 3, "d"),
        ("d", 3, "c"),
        ("abcd", 3, ""),
        ("xyz", 3, "abcd"),
        ("xyz", 4, "bcd"),
        ("axyz", 3, "bcd"),
    ],
)
def test_those_that_run_stay_and_the_first_ones_come_next(held: str, most: int, expected: str) -> None:
    fanouts = 1
    assert beyond([*WANTED, *TRIGGERS, *SHARED, *STOPPED, *UNLISTED], set(held), most + fanouts) == set(expected)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], 0),
        ([replace(TRIGGERS[0], topic=f"t{number}") for number in range(2)], 2),
        ([replace(one, secret="ns/kafka") for one in TRIGGERS], 3),
        ([replace(TRIGGERS[0], topic="t2", secret=f"ns/{number}") for number in range(2)], 4),
    ],
    ids=["none", "two topics of Brokers", "one topic and one Secret", "one topic and two Secrets"],
)
def test_brokers_and_their_secrets_take_clients_from_subscriptions(others: list[Subscription], expected: int) -> None:
    assert len(beyond([*WANTED, *others], set(), len(WANTED))) == min(expected, len(WANTED))
