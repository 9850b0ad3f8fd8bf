"""When a topic counts as recreated: after two equal answers in a row, and never after a missing one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.reader.topic_identity import ReplacedTopics
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable

ONE = Subscription(
    "u1", 1, "ns", "one", "c", "ch", "t", "t.dlq", 1, "g1", Addressable("http://x/"), topic_id="A"
)  # fmt: skip
TWO = replace(ONE, uid="u2", name="two", topic_id="B")


@pytest.mark.parametrize(
    ("answers", "halted"),
    [
        ([{"t": "A"}, {"t": "A"}], set()),
        ([{"t": "B"}], set()),  # an answer that was on its way while the contract changed
        ([{"t": "B"}, {"t": "A"}, {"t": "B"}], set()),
        ([{"t": "B"}, {"t": "C"}], set()),  # once more made anew: said when it stands still
        ([{"t": "B"}, {"t": "B"}], {"u1"}),
        ([{"t": "B"}, {}, {"t": "B"}], set()),  # deleted, and perhaps being made anew
        ([{"t": ""}, {"t": ""}], set()),  # a Kafka without ids
        ([{}, {}], set()),
    ],
)
def test_two_equal_answers_in_a_row_halt_a_subscription(answers: list[dict[str, str]], halted: set[str]) -> None:
    suspicions = ReplacedTopics()
    reasons: dict[str, str] = {}
    for ids in answers:
        reasons = suspicions.judge([ONE], ids)
    assert set(reasons) == halted


def test_only_subscriptions_of_a_former_topic_are_stopped() -> None:
    suspicions = ReplacedTopics()
    unknown = replace(ONE, uid="u3", topic_id="")
    for _ in range(2):
        reasons = suspicions.judge([ONE, TWO, unknown], {"t": "B"})
    assert reasons == {"u1": "topic t was deleted and created again (id A, now B)"}


def test_subscription_that_was_added_again_is_not_suspected_for_its_former_self() -> None:
    suspicions = ReplacedTopics()
    suspicions.judge([ONE], {"t": "B"})
    assert suspicions.judge([replace(ONE, topic_id="B")], {"t": "B"}) == {}
    assert suspicions.judge([replace(ONE, topic_id="B")], {"t": "B"}) == {}
