"""The cell of a delivery says what applies and where it comes from."""

from __future__ import annotations

from dataclasses import replace

from app.cli.output.delivery import describe_dead_letters, describe_delivery
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable, DeliverySpec

RECORD = Subscription("s", 1, "ns", "sub", "c", "ch", "topic", "topic.dlq", 2, "kafka.s", Addressable("http://x/"))


def test_cell_names_the_origin_of_each_field() -> None:
    sink = Addressable("http://sink/?key")
    record = replace(
        RECORD,
        kind=TRIGGER,
        delivery=DeliverySpec(retry=2, timeout_s=30.0, retry_after_max_s=0.0, dead_letter_sink=sink),
        delivery_own=("retry", "retryAfterMax"),
        delivery_inherited=("timeout", "deadLetterSink"),
    )
    assert describe_delivery(record) == (
        "own: retry=2, retryAfterMax=0s; broker: timeout=30s; "
        "default: backoffPolicy=exponential, backoffDelay=0.2s, format=binary"
    )
    assert describe_dead_letters(record) == "http://sink/ (broker)"
    own = replace(record, kind="Subscription", delivery_own=("deadLetterSink",))
    assert describe_dead_letters(own) == "http://sink/ (own)"
    assert describe_dead_letters(replace(own, delivery_own=())) == "http://sink/ (channel)"


def test_without_a_delivery_all_is_default() -> None:
    assert describe_delivery(replace(RECORD, delivery=DeliverySpec(retry=10))) == (
        "default: retry=10, backoffPolicy=exponential, backoffDelay=0.2s, timeout=300s, format=binary"
    )
    assert describe_dead_letters(RECORD) == "topic.dlq"
