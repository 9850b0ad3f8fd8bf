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
    assert beyond([*WANTED, *TRIGGERS, *SHARED, *STOPPED], set(held), most) == set(expected)
