"""The schema by which Spark reads the contract: fields of its dataclasses, with their names and types."""

from __future__ import annotations

import pytest

from analytics.topology.spark.contract import SCHEMA, _schema
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable, DeliverySpec


def test_the_schema_of_the_graph() -> None:
    assert SCHEMA == (
        "what string, channel struct<uid: string, namespace: string, name: string, kind: string, topic: string, "
        "hosts: array<string>>, subscription struct<uid: string, namespace: string, name: string, kind: string, "
        "channel_uid: string, channel: string, dlq_topic: string, exhausted: string, generation: bigint, "
        "partitions: bigint, subscriber: struct<uri: string>, reply: struct<uri: string>, "
        "delivery: struct<dead_letter_sink: struct<uri: string>>, filter: string>"
    )


def test_every_field_of_the_contract_has_a_type() -> None:
    kinds: tuple[type, ...] = (Channel, Subscription, DeliverySpec, Addressable)
    schema = _schema({kind: kind.__match_args__ for kind in kinds})  # type: ignore[attr-defined]
    for part in ("keep_topic: boolean", "timeout_s: double", "retry_after_max_s: double", "backoff_policy: string"):
        assert part in schema


def test_a_field_that_the_contract_does_not_have() -> None:
    with pytest.raises(KeyError):
        _schema({Channel: ("colour",), Subscription: ("uid",)})
