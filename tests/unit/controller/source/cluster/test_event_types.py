"""EventTypes: when they are wanted, what of the traffic makes one, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from controller.source.cluster.event_types import Received, event_type, is_enabled, owner_of, received
from controller.source.cluster.objects import read_object
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, SETTLED, Delta, encode
from tables.kafka.compacted_topic import Record

BROKER = ("Broker", "shop", "main")
CHANNEL = ("KafkaChannel", "shop", "orders")


@pytest.mark.parametrize(
    ("features", "enabled"),
    [
        (None, False),
        ({}, False),
        ({"data": None}, False),
        ({"data": {"eventtype-auto-create": "disabled"}}, False),
        ({"data": {"eventtype-auto-create": "enabled"}}, True),
        ({"data": {"eventtype-auto-create": "Enabled"}}, True),
        ({"data": {"other": "enabled"}}, False),
    ],
)
def test_knatives_features_decide(features: dict[str, Any] | None, enabled: bool) -> None:
    assert is_enabled(features) is enabled


def delta(**fields: Any) -> Record:
    given = {"kind": ACCEPTED, "channel": "orders", "type": "created", "source": "/shop", **fields}
    made = Delta(by="w", number=1, at=1, namespace="shop", counts=Counts(events=1), **given)
    return Record(b"k", encode(made))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (delta(), Received(CHANNEL, "created", "/shop")),
        (delta(channel="broker:main"), Received(BROKER, "created", "/shop")),
        (delta(kind=SETTLED, subscription="billing"), None),
        (delta(type="", source=""), None),
        (Record(b"k", b"no JSON"), None),
        (Record(b"k", None), None),
    ],
)
def test_what_was_stored_has_a_type(record: Record, expected: Received | None) -> None:
    assert received(record) == expected


def broker() -> Any:
    annotations = {"eventing.knative.dev/broker.class": "Kafka"}
    metadata = {"namespace": "shop", "name": "main", "uid": "b1", "annotations": annotations}
    return read_object({"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": {}})


def test_an_event_type_says_what_comes_and_where_and_goes_with_that() -> None:
    one = Received(BROKER, "created", "/shop")
    found = event_type(one, broker())
    namespace, name = one.name
    assert (found["metadata"]["namespace"], found["metadata"]["name"]) == (namespace, name)
    reference = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "namespace": "shop", "name": "main"}
    assert found["spec"]["reference"] == reference
    assert (found["spec"]["type"], found["spec"]["source"]) == ("created", "/shop")
    assert owner_of(found) == "b1"


def test_each_type_and_source_has_a_name_of_its_own() -> None:
    names = {
        Received(owner, type_, source).name
        for owner in (BROKER, CHANNEL, ("Broker", "shop", "x" * 253))
        for type_ in ("a", "b")
        for source in ("/a", "/b")
    }
    assert len(names) == 12
    assert max(len(name) for _, name in names) <= 253


@pytest.mark.parametrize(
    "source",
    ["/shop", "shop", "https://shop.example:8443/a:b?c=d#e", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
     "mailto:a@shop.example", "//shop.example", "//shop.example/a", "?q", "#f", "a/b;c=d", "/%C3%A4", "file:///a"],
)  # fmt: skip
def test_a_source_that_every_parser_takes_is_there(source: str) -> None:
    assert event_type(Received(BROKER, "a", source), broker())["spec"]["source"] == source


@pytest.mark.parametrize(
    "source",
    ["", ":a", "1a:b", "http://[::1", "http://a:b/", "http://a:b@c/", "//a:99999999/", "/%zz", "/a b", "/ä", "a\nb"],
)
def test_a_source_that_a_parser_might_refuse_is_left_out(source: str) -> None:
    """One that Go cannot parse would stop Knative's core from reading any EventType."""
    assert "source" not in event_type(Received(BROKER, "a", source), broker())["spec"]
