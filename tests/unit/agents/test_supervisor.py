"""Which subscriptions a worker has no clients for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.supervisor import MOST, beyond
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable

WANTED = [
    Subscription(uid, 1, "ns", uid, "c", "ch", f"t-{uid}", "dlq", 1, f"g-{uid}", Addressable("http://x/"))
    for uid in "abcd"
]
SECOND = [replace(subscription, uid=subscription.uid.upper()) for subscription in WANTED]
STOPPED = [replace(subscription, uid=f"s-{subscription.uid}", topic="s", stopped=True) for subscription in WANTED]
UNLISTED = [replace(subscription, uid=f"u-{subscription.uid}", topic="u", unlisted=True) for subscription in WANTED]


@pytest.mark.parametrize(
    ("read", "most", "expected"),
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
def test_topics_that_are_read_stay_and_the_first_ones_come_next(read: str, most: int, expected: str) -> None:
    late = beyond([*WANTED, *SECOND, *STOPPED, *UNLISTED], {f"t-{uid}" for uid in read}, most)
    assert late == {*expected, *expected.upper()}


def test_many_subscriptions_of_one_topic_take_one_client() -> None:
    assert beyond([replace(WANTED[0], uid=str(number)) for number in range(2 * MOST)], set()) == set()


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], 0),
        ([replace(WANTED[0], topic="s", secret="ns/kafka")], 2),
        ([replace(WANTED[0], topic="s", secret=f"ns/{number}") for number in range(2)], 4),
        ([replace(WANTED[0], topic="s", secret="ns/kafka", stopped=True)], 0),
    ],
    ids=["none", "one Secret", "two Secrets", "one that is not served"],
)
def test_secrets_of_brokers_take_clients(others: list[Subscription], expected: int) -> None:
    served = [replace(other, kind=TRIGGER) for other in others]
    assert len(beyond([*served, *WANTED], {"s"}, len(WANTED) + 1)) == expected
