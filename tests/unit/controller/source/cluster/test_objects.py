"""Objects of the API server: what is read of them, what they refer to, and which finalizers they get."""

from __future__ import annotations

from typing import Any

import pytest

from controller.source.cluster.objects import (
    FINALIZER,
    Known,
    expected_refs,
    former_of,
    ours_of,
    path_of,
    plan_finalizers,
    plan_releases,
    read_object,
    served_of,
    trimmed,
)
from controller.source.cluster.references import (
    ApiKind,
    address_of,
    config_maps_of,
    find_kind,
    refs_of,
    trim_addressable,
)
from knative.delivery.policy import Addressable
from knative.resources.destination import Ref
from knative.resources.values import KafkaChannel, ResetOffset

KAFKA = {"eventing.knative.dev/broker.class": "Kafka"}


def raw(kind: str, spec: Any = None, api: str = "messaging.knative.dev/v1", **metadata: Any) -> dict[str, Any]:
    base = {"namespace": "ns", "name": "one", "uid": "u1", "generation": 3, "resourceVersion": "5"}
    found = {"apiVersion": api, "kind": kind, "metadata": {**base, **metadata}}
    return found if spec is None else {**found, "spec": spec}


def known(kind: str = "KafkaChannel", spec: Any = None, **metadata: Any) -> Known:
    api = "eventing.knative.dev/v1" if kind in ("Broker", "Trigger") else "messaging.knative.dev/v1"
    return read_object(raw(kind, spec, api, **metadata))


def test_an_object_has_the_identity_that_the_server_gave_it() -> None:
    found = known(spec={"numPartitions": 2})
    assert isinstance(found.resource, KafkaChannel)
    assert (found.uid, found.generation, found.as_object().key) == ("u1", 3, ("KafkaChannel", "ns", "one"))
    assert (found.deleting, found.finalized) == (False, False)


def test_a_channel_may_have_no_spec() -> None:
    assert known().resource == KafkaChannel("ns", "one")


def test_an_object_that_is_not_valid_says_why() -> None:
    found = known(spec={"numPartitions": 0})
    assert found.resource is None
    (condition,) = found.invalid_status.conditions
    assert (condition.type, condition.reason) == ("Ready", "SpecInvalid")
    assert "spec.numPartitions" in condition.message
    assert found.invalid_status.generation == 3


@pytest.mark.parametrize(("ready", "over"), [("True", True), ("False", True), ("Unknown", False), (None, False)])
def test_a_reset_offset_knows_from_its_status_whether_it_is_over(ready: str | None, over: bool) -> None:
    spec = {"offset": {"time": "latest"}, "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription"}}
    spec["ref"]["name"] = "billing"
    found = raw("ResetOffset", spec, "kafka.eventing.knative.dev/v1alpha1")
    if ready is not None:
        found["status"] = {"conditions": [{"type": "RefMapped", "status": "True"}, {"type": "Ready", "status": ready}]}
    resource = read_object(found).resource
    assert isinstance(resource, ResetOffset)
    assert resource.over is over


def test_a_reset_offset_knows_when_it_was_created() -> None:
    spec = {"offset": {"time": "latest"}, "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription"}}
    spec["ref"]["name"] = "billing"
    api = "kafka.eventing.knative.dev/v1alpha1"
    for time, created in (("1970-01-02T00:00:00Z", 86_400.0), (None, 0.0)):
        resource = read_object(raw("ResetOffset", spec, api, creationTimestamp=time)).resource
        assert isinstance(resource, ResetOffset)
        assert resource.created == created


def of_channel(kind: str, name: str = "orders") -> dict[str, Any]:
    return {"channel": {"apiVersion": "messaging.knative.dev/v1", "kind": kind, "name": name}}


#: The spec of a Subscription that is core's, beside a KafkaChannel `orders`; and whether it may be served later.
EXPECTED = {
    "of a KafkaChannel": (of_channel("KafkaChannel"), True),
    "of a KafkaChannel that is not there yet": (of_channel("KafkaChannel", "other"), True),
    "of a KafkaChannel, which is what no kind means": ({"channel": {"name": "orders"}}, True),
    "of a Channel that a KafkaChannel backs": (of_channel("Channel"), True),
    "of a Channel that something else backs": (of_channel("Channel", "other"), False),
    "of a channel of another kind": (of_channel("InMemoryChannel"), False),
    "of no channel": ({}, False),
    "without a spec": (None, False),
    "of a text": ({"channel": "orders"}, False),
}


@pytest.mark.parametrize("row", EXPECTED.values(), ids=EXPECTED)
def test_subscriptions_of_core_that_a_reset_offset_may_wait_for(row: tuple[dict[str, Any] | None, bool]) -> None:
    spec, expected = row
    channel, cores = known(name="orders"), known("Subscription", spec)
    found = expected_refs([channel, cores], [channel])
    assert found == {("KafkaChannel", "ns", "orders"), *([("Subscription", "ns", "one")] if expected else [])}


def test_a_reset_offset_waits_for_what_is_ours_unless_it_is_being_deleted() -> None:
    one, going = known(), known("Subscription", of_channel("KafkaChannel"), deletionTimestamp="now")
    assert expected_refs([one, going], [one, going]) == {("KafkaChannel", "ns", "one")}


@pytest.mark.parametrize(
    ("class_", "finalizers", "served"),
    [("Kafka", [], True), ("MTChannelBasedBroker", [], False), ("MTChannelBasedBroker", [FINALIZER], True)],
)
def test_a_trigger_whose_broker_is_somebody_elses_now_is_not_written(
    class_: str, finalizers: list[str], served: bool
) -> None:
    """Its Broker was deleted and created again with another class. It has our finalizer until it goes."""
    annotations = {"eventing.knative.dev/broker.class": class_}
    broker = known("Broker", {}, name="main", annotations=annotations, finalizers=finalizers)
    spec = {"broker": "main", "subscriber": {"uri": "http://x/"}}
    trigger = known("Trigger", spec, finalizers=[FINALIZER])
    ours = ours_of([broker, trigger], core=True)
    assert trigger in ours
    assert (trigger in served_of(ours, [broker, trigger])) is served
    assert trigger in served_of(ours, [trigger]), "as long as nothing is known of its Broker"


def test_a_status_is_no_news() -> None:
    before = read_object(raw("KafkaChannel"))
    after = read_object({**raw("KafkaChannel", resourceVersion="6"), "status": {"address": {"url": "http://x"}}})
    assert before.facts == after.facts
    assert read_object(raw("KafkaChannel", annotations={"penstock.dev/hosts": "a.b"})).facts != before.facts
    assert read_object(raw("KafkaChannel", deletionTimestamp="2026-01-01T00:00:00Z")).facts != before.facts


def test_what_only_other_programs_read_is_not_kept() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "penstock.dev/hosts": "a.b"}
    found = trimmed("ConfigMap")({"metadata": {"name": "x", "managedFields": [1], "annotations": applied}, "data": {}})
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "annotations": {"penstock.dev/hosts": "a.b"}},
        "data": {},
    }


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "expected"),
    [
        ("KafkaChannel", "", "", "/apis/messaging.knative.dev/v1beta1/kafkachannels"),
        ("Trigger", "a", "", "/apis/eventing.knative.dev/v1/namespaces/a/triggers"),
        ("ConfigMap", "a", "b", "/api/v1/namespaces/a/configmaps/b"),
    ],
)
def test_paths(kind: str, namespace: str, name: str, expected: str) -> None:
    assert path_of(kind, namespace, name) == expected


GOING = "2026-01-01T00:00:00Z"
FINALIZERS = {
    "a new channel gets it": (known(), "", [FINALIZER]),
    "others keep theirs": (known(finalizers=["x/y"]), "", ["x/y", FINALIZER]),
    "it has it": (known(finalizers=[FINALIZER]), "", None),
    "being deleted, never had it": (known(deletionTimestamp=GOING), "", None),
    "being deleted, its topic is still there": (known(deletionTimestamp=GOING, finalizers=[FINALIZER]), "u1", None),
    "being deleted, nothing is left": (known(deletionTimestamp=GOING, finalizers=["x/y", FINALIZER]), "", ["x/y"]),
    "not valid": (known(spec={"numPartitions": 0}), "", None),
    "not valid any more": (known(spec={"numPartitions": 0}, finalizers=[FINALIZER]), "", None),
    "not valid, being deleted": (
        known(spec={"numPartitions": 0}, finalizers=[FINALIZER], deletionTimestamp=GOING),
        "",
        [],
    ),
    "a Broker of ours": (known("Broker", annotations=KAFKA), "", [FINALIZER]),
    "a Broker of another class": (known("Broker", annotations={next(iter(KAFKA)): "MT"}), "", None),
}


@pytest.mark.parametrize("row", FINALIZERS.values(), ids=FINALIZERS)
def test_finalizers(row: tuple[Known, str, list[str] | None]) -> None:
    one, in_kafka, expected = row
    changes = plan_finalizers([one], frozenset(in_kafka.split()))
    assert [list(change.finalizers) for change in changes] == ([] if expected is None else [expected])
    if expected is not None:
        assert changes[0].adds is (FINALIZER in expected)


@pytest.mark.parametrize(
    ("listed", "in_kafka", "goes"), [("", "u1", False), ("u1", "u1", True), ("", "", True), ("u1", "", True)]
)
@pytest.mark.parametrize("deleted", [{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}], ids=["there", "deleted"])
def test_core_has_what_it_has_written_into_a_channel(
    listed: str, in_kafka: str, goes: bool, deleted: dict[str, str]
) -> None:
    of_core = known("Subscription", SUBSCRIPTION_SPEC, finalizers=["core.example/x"])
    former = known("Subscription", SUBSCRIPTION_SPEC, finalizers=["core.example/x", FINALIZER], **deleted)
    channel = known(spec={}, finalizers=[FINALIZER])
    assert former_of([channel, of_core, former], core=False) == []
    assert former_of([channel, of_core, former], core=True) == [former]
    changes = plan_releases([former], listed.split(), in_kafka.split())
    assert [one.finalizers for one in changes] == ([("core.example/x",)] if goes else [])


SUBSCRIPTION_SPEC = {
    "channel": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "orders"},
    "subscriber": {"uri": "http://x/"},
}
TRIGGER_SPEC = {"broker": "b", "subscriber": {"uri": "http://x/"}}
OURS = {
    "a Subscription, stand-alone": (known("Subscription", SUBSCRIPTION_SPEC), None, False, True),
    "a Subscription, with core": (known("Subscription", SUBSCRIPTION_SPEC), None, True, False),
    "a Subscription of another channel, with core": (
        known("Subscription", of_channel("InMemoryChannel")),
        None,
        True,
        False,
    ),
    "a Subscription that is not valid, stand-alone": (known("Subscription", {}), None, False, True),
    "a Trigger of our Broker": (known("Trigger", TRIGGER_SPEC), "Kafka", True, True),
    "a Trigger of another's Broker": (known("Trigger", TRIGGER_SPEC), "MT", False, False),
    "a Trigger of our Broker that is not valid": (known("Trigger", {"broker": "b"}), "Kafka", True, True),
    "a Trigger of another's Broker that is not valid": (known("Trigger", {"broker": "b"}), "MT", False, False),
    "a Trigger without Broker that is not valid, stand-alone": (known("Trigger"), None, False, True),
    "a Trigger that was ours": (known("Trigger", TRIGGER_SPEC, finalizers=[FINALIZER]), "MT", False, True),
    "a Trigger without Broker, stand-alone": (known("Trigger", TRIGGER_SPEC), None, False, True),
    "a Trigger without Broker, with core": (known("Trigger", TRIGGER_SPEC), None, True, False),
}


@pytest.mark.parametrize("row", OURS.values(), ids=OURS)
def test_which_objects_are_ours(row: tuple[Known, str | None, bool, bool]) -> None:
    one, class_, core, expected = row
    annotations = {next(iter(KAFKA)): class_}
    brokers = [] if class_ is None else [known("Broker", name="b", uid="b", annotations=annotations)]
    assert (one in ours_of([one, *brokers], core=core)) is expected


def test_what_objects_refer_to() -> None:
    sink = {"deadLetterSink": {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "dead"}}}
    service = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing", "namespace": "other"}}
    ours = {"ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "audit"}}
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "orders"}
    spec = {"channel": channel, "subscriber": service, "reply": ours, "delivery": sink}
    config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}
    resources = [
        one.resource
        for one in (known("Subscription", spec), known("Broker", config, annotations=KAFKA))
        if one.resource is not None
    ]
    assert refs_of(resources) == {
        Ref("v1", "Service", "other", "billing"),
        Ref("serving.knative.dev/v1", "Service", "ns", "dead"),
    }
    assert config_maps_of(resources) == {("ns", "config")}


def test_kinds_and_addresses_of_others() -> None:
    listed = {
        "resources": [
            {"name": "services/status", "kind": "Service", "namespaced": True},
            {"name": "services", "kind": "Service", "namespaced": True},
        ]
    }
    kind = find_kind(listed, "serving.knative.dev/v1", "Service")
    assert kind == ApiKind("serving.knative.dev/v1", "Service", "services", True)
    assert kind.path("ns") == "/apis/serving.knative.dev/v1/namespaces/ns/services"
    assert ApiKind("x/v1", "Sink", "sinks", False).path("ns") == "/apis/x/v1/sinks"
    assert find_kind(listed, "serving.knative.dev/v1", "Route") is None
    address = {"url": "http://dead.ns", "CACerts": "pem"}
    one = trim_addressable(raw("Service") | {"status": {"address": address, "other": 1}, "spec": {"x": 1}})
    assert one["metadata"] == {"namespace": "ns", "name": "one", "uid": "u1", "resourceVersion": "5"}
    assert "spec" not in one
    assert address_of(one) == Addressable("http://dead.ns", "pem")
    assert address_of(trim_addressable(raw("Service"))) is None
