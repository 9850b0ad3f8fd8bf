"""Our CRDs in an API server: defaults, what cannot be changed, and what `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knative.resources.kinds import OURS
from tests.support.kube.client import Answer, path_of
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.kube.manifests import OPEN_SCHEMA, definition
from tests.support.processes import wait_until

SINK = {"uri": "http://h/"}
CHANNEL = {"numPartitions": 4, "replicationFactor": 2}
SUBSCRIPTION = {"channel": {"name": "orders"}, "subscriber": SINK}
BROKER = {"config": {"name": "c"}}
TRIGGER = {"broker": "main", "subscriber": SINK}
RESET = {
    "offset": {"time": "earliest"},
    "ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "name": "a"},
}


def _object(kind: str, namespace: str, spec: dict[str, Any] | None) -> dict[str, Any]:
    api_version = next(crd.api_version for crd in OURS if crd.name == kind)
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": "one"}}
    return document if spec is None else {**document, "spec": spec}


@pytest.mark.parametrize("kind", ["KafkaChannel", "Broker"])
def test_spec_that_is_absent_is_empty_with_defaults(
    with_crds: KubeCluster, make_namespace: Callable[[], str], kind: str
) -> None:
    answer = with_crds.admin.create(_object(kind, make_namespace(), None)).must()
    channel = {"numPartitions": 1, "replicationFactor": 1, "retentionDuration": "PT168H"}
    assert answer["spec"] == (channel if kind == "KafkaChannel" else {})


@pytest.mark.parametrize(
    ("kind", "spec", "change", "field"),
    [
        ("KafkaChannel", CHANNEL, {"numPartitions": 5}, ""),
        ("KafkaChannel", CHANNEL, {"numPartitions": 3}, "spec.numPartitions"),
        ("KafkaChannel", CHANNEL, {"numPartitions": None}, "spec.numPartitions"),
        ("KafkaChannel", CHANNEL, {"replicationFactor": 3}, "spec.replicationFactor"),
        ("KafkaChannel", CHANNEL, {"retentionDuration": "PT1H"}, ""),
        ("KafkaChannel", CHANNEL, {"subscribers": [{"uid": "a", "subscriberUri": "http://a/"}]}, ""),
        ("Subscription", SUBSCRIPTION, {"subscriber": {"uri": "http://other/"}}, ""),
        ("Subscription", SUBSCRIPTION, {"channel": {"name": "other"}}, "spec.channel"),
        ("Broker", BROKER, {"delivery": {"retry": 3}}, ""),
        ("Broker", BROKER, {"config": {"name": "other"}}, "spec.config"),
        ("Broker", BROKER, {"config": None}, "spec.config"),
        ("Broker", {}, BROKER, "spec.config"),
        ("Trigger", TRIGGER, {"filters": [{"exact": {"type": "a"}}]}, ""),
        ("Trigger", TRIGGER, {"broker": "other"}, "spec.broker"),
        ("ResetOffset", RESET, {"offset": {"time": "latest"}}, "spec"),
    ],
)  # fmt: skip
def test_change_of_a_spec_is_taken_or_refused_with_its_field(
    with_crds: KubeCluster,
    make_namespace: Callable[[], str],
    kind: str,
    spec: dict[str, Any],
    change: dict[str, Any],
    field: str,
) -> None:
    document = _object(kind, make_namespace(), spec)
    with_crds.admin.create(document).must()
    answer = with_crds.admin.merge(path_of(document), {"spec": change})
    if not field:
        answer.must()
        return
    assert answer.status == 422
    assert field in [where for where, _ in answer.causes], answer.message


def test_entries_of_another_controller_stay_as_it_wrote_them(
    with_crds: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    document = _object("KafkaChannel", make_namespace(), None)
    with_crds.admin.create(document).must()
    entries = [
        {"uid": "u1", "name": "a", "generation": 1, "subscriberUri": "http://a/", "delivery": {"retry": 3}},
        {"uid": "u2", "name": "b", "generation": 2, "subscriberUri": "http://b/", "replyUri": "http://c/"},
    ]
    answer = with_crds.admin.merge(path_of(document), {"spec": {"subscribers": entries}}).must()
    assert answer["spec"]["subscribers"] == entries


def test_status_is_written_apart_from_the_spec(with_crds: KubeCluster, make_namespace: Callable[[], str]) -> None:
    document = _object("KafkaChannel", make_namespace(), None)
    with_crds.admin.create({**document, "status": {"deadLetterSinkUri": "http://no/"}}).must()
    path = path_of(document)
    assert "status" not in with_crds.admin.get(path).must()
    status = {
        "observedGeneration": 1,
        "address": {"url": "http://one.test/"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "TopicConflict", "message": "another has it"}],
        "subscribers": [{"uid": "u1", "observedGeneration": 1, "ready": "True"}],
        "annotations": {"topic": "knative-messaging-kafka.test.one"},
    }
    answer = with_crds.admin.merge(f"{path}/status", {"status": status, "spec": {"numPartitions": 9}}).must()
    assert answer["status"] == status
    assert answer["spec"]["numPartitions"] == 1


def test_kubectl_get_shows_address_and_readiness(with_crds: KubeCluster, make_namespace: Callable[[], str]) -> None:
    namespace = make_namespace()
    document = _object("KafkaChannel", namespace, None)
    with_crds.admin.create(document).must()
    ready = {"type": "Ready", "status": "False", "reason": "TopicConflict"}
    status = {"address": {"url": "http://one.test/"}, "conditions": [ready]}
    with_crds.admin.merge(f"{path_of(document)}/status", {"status": status}).must()
    row = with_crds.admin.table(path_of(document, with_name=False))[0]
    assert {name: row[name] for name in ("Name", "URL", "Ready", "Reason")} == {
        "Name": "one",
        "URL": "http://one.test/",
        "Ready": "False",
        "Reason": "TopicConflict",
    }


def _widget(schema: dict[str, Any]) -> dict[str, Any]:
    return definition("example.com/v1", "Widget", schema)


def test_crds_of_another_implementation_are_not_replaced(with_crds: KubeCluster) -> None:
    """By the command in the docs, which applies as `penstock`. What Penstock has put there it replaces later."""
    admin = with_crds.admin

    def install(schema: dict[str, Any]) -> Answer:
        return admin.apply(_widget(schema), "penstock", force="false")

    path = path_of(_widget({}))
    for of_somebody_else in (admin.create, admin.apply):
        of_somebody_else(_widget(OPEN_SCHEMA)).must()
        refused = install({"type": "object"})
        assert refused.status == 409, "kubectl ends with 1, and prints what is in conflict"
        assert ".spec.versions" in refused.message
        (version,) = admin.get(path).must()["spec"]["versions"]
        assert version["schema"]["openAPIV3Schema"] == OPEN_SCHEMA
        admin.delete(path).must()
        wait_until("it is gone", lambda: admin.get(path).status == 404, START_LIMIT_S)
    install({"type": "object"}).must()
    install({"type": "object", "description": "newer"}).must()
    admin.delete(path).must()


def test_short_names_and_categories_are_served(with_crds: KubeCluster) -> None:
    listed = with_crds.admin.get("/apis/messaging.knative.dev/v1").must()["resources"]
    names = {resource["name"]: (resource.get("shortNames"), resource.get("categories", [])) for resource in listed}
    assert names["kafkachannels"][0] == ["kch", "kc"]
    assert names["subscriptions"][0] == ["sub"]
    assert "channel" in names["kafkachannels"][1]
