"""EventTypes of a directory: what type they are of, and of which channel or Broker."""

from __future__ import annotations

from typing import Any

import pytest

from knative.resources.kinds import Invalid, parse
from knative.resources.values import EventType

BROKER = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "main"}
CHANNEL = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "orders"}


def document(spec: object, version: str = "v1beta2") -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "paid"}
    return {"apiVersion": f"eventing.knative.dev/{version}", "kind": "EventType", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "version", "channel"),
    [
        ({"type": "paid", "reference": BROKER}, "v1beta2", ("Broker", "shop", "main")),
        ({"type": "paid", "reference": CHANNEL}, "v1beta2", ("KafkaChannel", "shop", "orders")),
        ({"type": "paid", "reference": {**CHANNEL, "kind": "Channel"}}, "v1beta2", ("KafkaChannel", "shop", "orders")),
        ({"type": "paid", "reference": {**BROKER, "namespace": "other"}}, "v1beta2", ("Broker", "other", "main")),
        ({"type": "paid", "broker": "main"}, "v1beta1", ("Broker", "shop", "main")),
        ({"type": "paid", "reference": {"kind": "InMemoryChannel", "name": "c"}}, "v1beta2", None),
        ({"type": "paid", "source": "/web", "schema": "http://x", "description": "when"}, "v1beta2", None),
        (
            {"attributes": [{"name": "type", "value": "paid", "required": True}], "reference": BROKER},
            "v1beta3",
            ("Broker", "shop", "main"),
        ),
    ],
)
def test_what_it_declares_and_where(spec: object, version: str, channel: tuple[str, str, str] | None) -> None:
    field = "spec.broker" if version == "v1beta1" else "spec.reference"
    assert parse(document(spec, version)) == EventType("shop", "paid", "paid", channel, field)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (None, "spec"),
        ({}, "spec.type"),
        ({"attributes": [{"name": "source", "value": "/web"}]}, "spec.type"),
        ({"type": 7}, "spec.type"),
        ({"type": "a", "reference": {"kind": "Broker"}}, "spec.reference.name"),
        ({"type": "a", "refrence": BROKER}, "spec.refrence"),
    ],
)
def test_what_is_wrong_is_named(spec: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(document(spec))
    assert field in [problem.field for problem in refused.value.problems]
