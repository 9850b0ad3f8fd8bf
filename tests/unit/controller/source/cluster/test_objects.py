"""Objects of the API server: what is read of them, what they refer to, and which finalizers they get."""

from __future__ import annotations

from typing import Any

import pytest

from controller.source.cluster.objects import (
    ClusterObject,
    namespaced_status,
    path_of,
    read_object,
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
from knative.resources.values import Broker, KafkaChannel, ResetOffset

KAFKA = {"eventing.knative.dev/broker.class": "Kafka"}


def raw(kind: str, spec: Any = None, api: str = "messaging.knative.dev/v1", **metadata: Any) -> dict[str, Any]:
    base = {"namespace": "ns", "name": "one", "uid": "u1", "generation": 3, "resourceVersion": "5"}
    document = {"apiVersion": api, "kind": kind, "metadata": {**base, **metadata}}
    return document if spec is None else {**document, "spec": spec}


def object_of(kind: str = "KafkaChannel", spec: Any = None, **metadata: Any) -> ClusterObject:
    api = "eventing.knative.dev/v1" if kind in ("Broker", "Trigger") else "messaging.knative.dev/v1"
    return read_object(raw(kind, spec, api, **metadata))


def test_object_has_the_identity_that_the_server_gave_it() -> None:
    channel = object_of(spec={"numPartitions": 2})
    assert isinstance(channel.resource, KafkaChannel)
    assert (channel.uid, channel.generation, channel.as_object().key) == ("u1", 3, ("KafkaChannel", "ns", "one"))
    assert (channel.deleting, channel.finalized) == (False, False)


def broker(class_: str, *reasons: str, **metadata: Any) -> ClusterObject:
    annotations = {"eventing.knative.dev/broker.class": class_}
    document = raw("Broker", {}, "eventing.knative.dev/v1", annotations=annotations, **metadata)
    moment = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": moment} for reason in reasons
    ]
    return read_object({**document, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (broker("KafkaNamespaced"), True),
        (broker("KafkaNamespaced", "ClassNotServed"), True),
        (broker("KafkaNamespaced", "ServedByAnother"), False),
        (broker("KafkaNamespaced", deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (broker("Kafka"), False),
        (broker("MTChannelBasedBroker"), False),
    ],
)
def test_class_that_nobody_serves_has_a_way_out(given: ClusterObject, said: bool) -> None:
    status = namespaced_status(given)
    assert (status is not None) is said
    if status is not None:
        (ready,) = status.conditions
        assert (ready.status, ready.reason) == ("False", "ClassNotServed")
        assert "create it again with eventing.knative.dev/broker.class: Kafka" in ready.message


@pytest.mark.parametrize(
    ("class_", "status", "address"),
    [
        ("MTChannelBasedBroker", {"address": {"url": "http://b/ns/one"}}, Addressable("http://b/ns/one")),
        ("MTChannelBasedBroker", {}, None),
        ("Kafka", {"address": {"url": "http://b/ns/one"}}, None),
    ],
)
def test_only_of_brokers_of_another_class_the_address_is_read(
    class_: str, status: dict[str, Any], address: Addressable | None
) -> None:
    resource = read_object({**broker(class_).raw, "status": status}).resource
    assert isinstance(resource, Broker)
    assert resource.address == address


def test_channel_may_have_no_spec() -> None:
    assert object_of().resource == KafkaChannel("ns", "one")


def test_object_that_is_not_valid_says_why() -> None:
    channel = object_of(spec={"numPartitions": 0})
    assert channel.resource is None
    (condition,) = channel.invalid_status.conditions
    assert (condition.type, condition.reason) == ("Ready", "SpecInvalid")
    assert "spec.numPartitions" in condition.message
    assert channel.invalid_status.generation == 3


@pytest.mark.parametrize(("ready", "over"), [("True", True), ("False", True), ("Unknown", False), (None, False)])
def test_reset_offset_knows_from_its_status_whether_it_is_over(ready: str | None, over: bool) -> None:
    spec = {"offset": {"time": "latest"}, "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription"}}
    spec["ref"]["name"] = "billing"
    reset = raw("ResetOffset", spec, "kafka.eventing.knative.dev/v1alpha1")
    if ready is not None:
        reset["status"] = {"conditions": [{"type": "RefMapped", "status": "True"}, {"type": "Ready", "status": ready}]}
    resource = read_object(reset).resource
    assert isinstance(resource, ResetOffset)
    assert resource.over is over


def test_reset_offset_knows_when_it_was_created() -> None:
    spec = {"offset": {"time": "latest"}, "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription"}}
    spec["ref"]["name"] = "billing"
    api = "kafka.eventing.knative.dev/v1alpha1"
    for time, created in (("1970-01-02T00:00:00Z", 86_400.0), (None, 0.0)):
        resource = read_object(raw("ResetOffset", spec, api, creationTimestamp=time)).resource
        assert isinstance(resource, ResetOffset)
        assert resource.created == created


def test_status_is_no_news() -> None:
    before = read_object(raw("KafkaChannel"))
    after = read_object({**raw("KafkaChannel", resourceVersion="6"), "status": {"address": {"url": "http://x"}}})
    assert before.facts == after.facts
    assert read_object(raw("KafkaChannel", annotations={"penstock.dev/hosts": "a.b"})).facts != before.facts
    assert read_object(raw("KafkaChannel", deletionTimestamp="2026-01-01T00:00:00Z")).facts != before.facts


def test_what_only_other_programs_read_is_not_kept() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "penstock.dev/hosts": "a.b"}
    kept = trimmed("ConfigMap")({"metadata": {"name": "x", "managedFields": [1], "annotations": applied}, "data": {}})
    assert kept == {
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
def test_path_names_group_namespace_and_object(kind: str, namespace: str, name: str, expected: str) -> None:
    assert path_of(kind, namespace, name) == expected


def test_what_objects_refer_to() -> None:
    sink = {"deadLetterSink": {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "dead"}}}
    service = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing", "namespace": "other"}}
    ours = {"ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "audit"}}
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "orders"}
    spec = {"channel": channel, "subscriber": service, "reply": ours, "delivery": sink}
    config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}
    resources = [
        entry.resource
        for entry in (object_of("Subscription", spec), object_of("Broker", config, annotations=KAFKA))
        if entry.resource is not None
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
    mapping = trim_addressable(raw("Service") | {"status": {"address": address, "other": 1}, "spec": {"x": 1}})
    assert mapping["metadata"] == {"namespace": "ns", "name": "one", "uid": "u1", "resourceVersion": "5"}
    assert "spec" not in mapping
    assert address_of(mapping) == Addressable("http://dead.ns", "pem")
    assert address_of(trim_addressable(raw("Service"))) is None
