"""KafkaChannel and Subscription: defaults, and every mistake with its field and a hint."""

from __future__ import annotations

from typing import Any

import pytest

from knative.delivery.policy import BackoffPolicy, DeliveryOrder, OnRetriesExhausted
from knative.resources import kinds
from knative.resources.destination import Ref
from knative.resources.fields import HOSTS
from knative.resources.kinds import Invalid, spec_hash
from knative.resources.values import DeliveryRules, KafkaChannel, Start, Subscription
from knative.urls import uri_problem


def channel(spec: object = None, annotations: object = None, **more: object) -> dict[str, Any]:
    metadata: dict[str, object] = {"name": "orders", "labels": {"a": "b"}, "uid": "x"}
    if annotations is not None:
        metadata["annotations"] = annotations
    value = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata, **more}
    return value if spec is None else {**value, "spec": spec}


def subscription(annotations: object = None, **spec: object) -> dict[str, Any]:
    full = {
        "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "orders"},
        "subscriber": {"uri": "http://127.0.0.1:8080/in"},
        **spec,
    }
    metadata: dict[str, object] = {"name": "billing", "namespace": "shop"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "metadata": metadata, "spec": full}


def read_channel(value: dict[str, Any]) -> KafkaChannel:
    resource = kinds.parse(value)
    assert isinstance(resource, KafkaChannel)
    return resource


def read_subscription(value: dict[str, Any]) -> Subscription:
    resource = kinds.parse(value)
    assert isinstance(resource, Subscription)
    return resource


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
@pytest.mark.parametrize("spec", [None, {}])
def test_channel_needs_a_name_and_nothing_else(version: str, spec: object) -> None:
    resource = read_channel(channel(spec, apiVersion=f"messaging.knative.dev/{version}", status={"x": 1}))
    assert resource == KafkaChannel("default", "orders")
    assert (resource.partitions, resource.replication, resource.retention_s) == (1, 1, 604_800.0)


def test_channel_with_everything() -> None:
    spec = {
        "numPartitions": 4,
        "replicationFactor": 3,
        "retentionDuration": "PT1H",
        "delivery": {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.1S", "timeout": "PT5S"},
        "subscribers": [{"uid": "u1", "generation": 2, "subscriberUri": "http://a/", "replyUri": "http://b/"}],
    }
    annotations = {"penstock.dev/hosts": "My-Service.ns.svc, other , other", "penstock.dev/keep-topic": "true"}
    resource = read_channel(channel(spec, annotations))
    assert (resource.partitions, resource.replication, resource.retention_s) == (4, 3, 3600.0)
    assert resource.delivery is not None
    assert resource.delivery == DeliveryRules(2, BackoffPolicy.LINEAR, 0.1, 5.0)
    assert resource.hosts == ("my-service.ns.svc", "other")
    assert resource.keep_topic
    entry = resource.subscribers[0]
    assert (entry.uid, entry.name, entry.generation, entry.subscriber.uri) == ("u1", "u1", 2, "http://a/")
    assert entry.reply is not None
    assert entry.reply.uri == "http://b/"


def test_subscription_and_its_defaults() -> None:
    resource = read_subscription(subscription())
    assert (resource.namespace, resource.name, resource.channel) == ("shop", "billing", "orders")
    assert resource.subscriber.uri == "http://127.0.0.1:8080/in"
    assert (resource.order, resource.concurrency, resource.start) == (None, None, Start.LATEST)
    assert (resource.exhausted, resource.reply, resource.delivery) == (OnRetriesExhausted.DEAD_LETTER, None, None)


def test_delivery_that_is_there_has_defaults_of_its_own() -> None:
    resource = read_subscription(subscription(delivery={}))
    assert resource.delivery is not None
    assert resource.delivery == DeliveryRules()
    ignoring = read_subscription(subscription(delivery={"retryAfterMax": "PT0S"}))
    assert ignoring.delivery is not None
    assert ignoring.delivery.retry_after_max_s == 0.0


def test_annotations_of_a_subscription() -> None:
    resource = read_subscription(
        subscription(
            {
                "kafka.eventing.knative.dev/delivery.order": "key-ordered",
                "penstock.dev/concurrency": "7",
                "penstock.dev/start": "earliest",
                "penstock.dev/exhausted": "ignore",
                "example.com/of-somebody-else": "x",
            }
        )
    )
    assert (resource.order, resource.concurrency) == (DeliveryOrder.KEY_ORDERED, 7)
    assert (resource.start, resource.exhausted) == (Start.EARLIEST, OnRetriesExhausted.IGNORE)


REF = {"apiVersion": "v1", "kind": "Service", "name": "sink"}


def test_ref_is_not_resolved_here() -> None:
    resource = read_subscription(subscription(subscriber={"ref": REF, "uri": "/path"}))
    assert (resource.subscriber.uri, resource.subscriber.ref) == ("/path", Ref("v1", "Service", "", "sink"))
    assert str(resource.subscriber.ref) == "Service sink"


@pytest.mark.parametrize(
    ("subscriber", "field"),
    [
        ({"ref": REF, "uri": "http://elsewhere/"}, "spec.subscriber.uri"),
        ({"ref": REF, "uri": "//elsewhere/"}, "spec.subscriber.uri"),
        ({"ref": REF, "uri": "//[/"}, "spec.subscriber.uri"),
        ({"ref": REF, "uri": "/a b"}, "spec.subscriber.uri"),
        ({"ref": REF, "uri": "/a#b"}, "spec.subscriber.uri"),
        ({"ref": {**REF, "name": "elsewhere/sink"}}, "spec.subscriber.ref.name"),
        ({"ref": {**REF, "namespace": "a@b"}}, "spec.subscriber.ref.namespace"),
    ],
)
def test_ref_leads_nowhere_else(subscriber: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_subscription(subscription(subscriber=subscriber))
    assert [problem.field for problem in refused.value.problems] == [field]
    assert refused.value.problems[0].hint


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("messaging.knative.dev/v1beta1", "Broker"),
        ("messaging.knative.dev/v1beta1", "ConfigMap"),
        ("eventing.knative.dev/v1", "KafkaChannel"),
        ("apps/v1", "ConfigMap"),
        ("v1", "Secret"),
    ],
)
def test_kinds_that_are_not_ours(api_version: str, kind: str) -> None:
    assert kinds.parse(channel(apiVersion=api_version, kind=kind)) is None


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("KafkaChanel", "apiVersion: messaging.knative.dev/v1beta1 and kind: KafkaChannel"),
        ("kafkachannel", "apiVersion: messaging.knative.dev/v1beta1 and kind: KafkaChannel"),
        ("Channel", "apiVersion: messaging.knative.dev/v1beta1 and kind: KafkaChannel"),
        ("Subscription", "apiVersion: messaging.knative.dev/v1 and kind: Subscription"),
        ("Triger", "apiVersion: eventing.knative.dev/v1 and kind: Trigger"),
        ("broker", "apiVersion: eventing.knative.dev/v1 and kind: Broker"),
        ("Configmap", "apiVersion: v1 and kind: ConfigMap"),
        ("Secret", None),
        ("Service", None),
        (None, None),
    ],
)
def test_misspelt_kind_gets_a_suggestion(kind: object, hint: str | None) -> None:
    assert kinds.meant(kind) == hint


def test_metadata_as_the_api_server_gives_it_is_taken() -> None:
    times = {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1", "generation": 1, "finalizers": ["x"]}
    assert read_channel(channel(metadata={"name": "a", "namespace": "b", "managedFields": [], **times})).name == "a"


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ({"kind": "KafkaChannel"}, "apiVersion", "missing"),
        (channel(apiVersion="messaging.knative.dev/v9"), "apiVersion", "v1beta1"),
        (channel(metadata={}), "metadata.name", "missing"),
        (channel(metadata={"name": 12}), "metadata.name", "quotes"),
        (channel(metadata={"name": "Orders"}), "metadata.name", "lower-case"),
        (channel(metadata={"name": "a", "namespace": "a.b"}), "metadata.namespace", "lower-case"),
        (channel(metadata=3), "metadata", "mapping"),
        (channel(metadata={"name": "a", "namespac": "b"}), "metadata.namespac", "did you mean `namespace`"),
        (channel(metadata={"name": "a", "annotation": {}}), "metadata.annotation", "did you mean `annotations`"),
        (channel({"numPartitions": 0}), "spec.numPartitions", "at least|from 1"),
        (channel({"numPartitions": "4"}), "spec.numPartitions", "whole number"),
        (channel({"numPartitions": True}), "spec.numPartitions", "the boolean true"),
        (channel({"numPartitions": 1.5}), "spec.numPartitions", "whole number"),
        (channel({"numPartitions": 10**6}), "spec.numPartitions", "most"),
        (channel({"replicationFactor": 10**6}), "spec.replicationFactor", "brokers"),
        (channel({"numPartition": 4}), "spec.numPartition", "did you mean `numPartitions`"),
        (channel({"retentionDuration": "7 days"}), "spec.retentionDuration", "PT"),
        (channel({"retentionDuration": "PT0S"}), "spec.retentionDuration", "is too short"),
        (channel([]), "spec", "a list, not a mapping"),
        (channel({"subscribers": {}}), "spec.subscribers", "not a list"),
        (channel({"subscribers": ["x"]}), "spec.subscribers[0]", "not a mapping"),
        (channel({"subscribers": [{"uid": "a"}]}), "spec.subscribers[0].subscriberUri", "missing"),
        (
            channel({"subscribers": [{"uid": "a/b", "subscriberUri": "http://a/"}]}),
            "spec.subscribers[0].uid",
            "is not a valid uid",
        ),
        (channel({"subscribers": [{"uid": "a", "subscriberUri": "http://a/"}] * 2}), "spec.subscribers", "same uid"),
        (channel({}, {HOSTS: "a:80"}), f"metadata.annotations.{HOSTS}", "without port"),
        *(
            (channel({}, {HOSTS: f"a.b, {host}"}), f"metadata.annotations.{HOSTS}", "channel in the namespace 'shop'")
            for host in (
                *("orders-kn-channel.shop.svc", "orders-kn-channel.shop.svc.cluster.local", "a-kn-channel.shop"),
                *("Orders-KN-channel.Shop.SVC.other.domain", "a.b-kn-channel.shop.svc", "x-kn-channel.shop.svc"),
            )
        ),
        (channel({}, {"penstock.dev/keep-topic": True}), "metadata.annotations.penstock.dev/keep-topic", "quotes"),
        (
            channel({}, {"penstock.dev/keep-topics": "x"}),
            "metadata.annotations.penstock.dev/keep-topics",
            "did you mean",
        ),
        (subscription(channel=None), "spec.channel", "missing"),
        (subscription(channel={"kind": "Channel", "name": "a"}), "spec.channel.kind", "KafkaChannel"),
        (subscription(channel={"name": "a", "namespace": "b"}), "spec.channel.namespace", "another namespace"),
        (subscription(subscriber=None), "spec.subscriber", "missing"),
        (subscription(subscriber={}), "spec.subscriber", "neither"),
        (subscription(subscriber={"uri": "/relative"}), "spec.subscriber.uri", "absolute"),
        (subscription(subscriber={"uri": "http://u:p@h/"}), "spec.subscriber.uri", "credentials"),
        (subscription(subscriber={"uri": "http://h/", "CACerts": "x"}), "spec.subscriber.CACerts", "PEM"),
        (subscription(subscriber={"uri": "http://h/", "audience": "x"}), "spec.subscriber.audience", "not supported"),
        (subscription(reply={"uri": "ftp://h/"}), "spec.reply.uri", "http"),
        (subscription(delivery={"format": "avro"}), "spec.delivery.format", "json or binary|binary or json"),
        (subscription(delivery={"retry": -1}), "spec.delivery.retry", "from 0"),
        (subscription(delivery={"retires": 1}), "spec.delivery.retires", "did you mean `retry`"),
        (subscription(delivery={"backoffPolicy": "random"}), "spec.delivery.backoffPolicy", "exponential or linear"),
        (subscription(delivery={"timeout": "PT0S"}), "spec.delivery.timeout", "is too short"),
        (subscription(delivery={"deadLetterSink": {"uri": "x"}}), "spec.delivery.deadLetterSink.uri", "absolute"),
        (
            subscription({"penstock.dev/start": "2026-01-01T00:00:00"}),
            "metadata.annotations.penstock.dev/start",
            "is not a valid start; write earliest, latest or a time such as 2026-01-31T08:00:00Z",
        ),
        (subscription({"penstock.dev/start": "now"}), "metadata.annotations.penstock.dev/start", "earliest, latest"),
        (
            subscription({"penstock.dev/start": "2026-13-01T00:00:00Z"}),
            "metadata.annotations.penstock.dev/start",
            "time",
        ),
        (subscription({"penstock.dev/concurrency": "0"}), "metadata.annotations.penstock.dev/concurrency", '"1"'),
        (
            subscription({"kafka.eventing.knative.dev/delivery.order": "sorted"}),
            "metadata.annotations.kafka.eventing.knative.dev/delivery.order",
            "key-ordered",
        ),
    ],
)
def test_mistake_is_reported_with_its_field_and_a_hint(value: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        kinds.parse(value)
    assert field in [problem.field for problem in caught.value.problems]
    assert all(problem.what and problem.hint for problem in caught.value.problems)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        kinds.parse(channel({"numPartitions": 0, "replicationFactor": 0, "more": 1}))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "subscriber",
    [
        {"uri": "http://user:hunter2@host/"},
        {"uri": "http://user:hunter2"},
        {"uri": "http:///?hunter2"},
        {"uri": "http://[::1:hunter2"},
        {"uri": "http://[a:b]/?hunter2"},
        {"uri": "http://host/?hunter2#x"},
        {"uri": "ftp://user:hunter2@host/?hunter2"},
        {"uri": "//user:hunter2@host/", "ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}},
        "http://user:hunter2@host/?hunter2",
        {"ref": "http://user:hunter2@host/?hunter2"},
    ],
)
def test_credentials_are_not_repeated(subscriber: object) -> None:
    with pytest.raises(Invalid) as caught:
        kinds.parse(subscription(subscriber=subscriber))
    assert "hunter2" not in str(caught.value)


def test_hash_follows_what_is_asked_for() -> None:
    before = spec_hash(channel())
    assert spec_hash(channel({}, {"example.com/x": "y"}, status={})) == before
    assert spec_hash(channel({"numPartitions": 1})) != before
    for annotation in ("penstock.dev/hosts", "penstock.dev/keep-topic", "knative.dev/dependency"):
        assert spec_hash(channel({}, {annotation: "a"})) != before


@pytest.mark.parametrize(
    ("uri", "fine"),
    [
        ("http://host", True),
        ("https://host:8443/a?b=c%20d", True),
        ("HTTP://host/", True),
        ("http://[::1]:80/", True),
        ("http://127.0.0.1:1/", True),
        ("http://", False),
        ("http:///path", False),
        ("http://host:99999/", False),
        ("http://host:0/", False),
        ('http://ho"st/', False),
        ("http://host/a b", False),
        ("http://host/\r\nx", False),
        ("http://höst/", False),
        ("http://host/#x", False),
        ("//host/", False),
        ("file:///etc/passwd", False),
        ("http://h/" + "x" * 9000, False),
    ],
)
def test_uri_that_is_not_valid_has_a_problem(uri: str, fine: bool) -> None:
    assert (uri_problem(uri) is None) is fine
