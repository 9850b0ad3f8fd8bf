"""`penstock export`: what a cluster has, served from a directory, is the same contract."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from knative.resources.crds import crd
from knative.resources.kinds import OURS
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, LIMIT_S, MESSAGING, PenstockInCluster
from tests.support.processes import Child, free_port

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

#: A kind with an address that a directory cannot resolve.
ADDRESSABLE = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "orders"}


def _export(penstock: PenstockInCluster, *arguments: str, **env: str) -> tuple[int, str, str]:
    settings = {"PENSTOCK_KUBECONFIG": str(penstock.kube.kubeconfig), **env}
    with penstock.command("export", *arguments, env=settings) as command:
        return command.wait(LIMIT_S), command.output(), command.tail()


def _run(folder: Path, settings: dict[str, str], *arguments: str) -> str:
    with Child(arguments[0], [sys.executable, "-m", "app.cli", *arguments], folder, settings) as command:
        assert command.wait(LIMIT_S) == 0, command.output() + command.tail()
        return str(command.output())


def test_directory_with_the_export_makes_the_same_contract(
    kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    data = {"default.topic.partitions": "2", "default.topic.replication.factor": "1"}
    where = {"namespace": penstock.namespace, "name": "broker-config"}
    kube.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": where, "data": data}).must()
    penstock.channel("orders", 2)
    penstock.subscription("bill", "orders", {"uri": "http://127.0.0.1:9/bill"}, delivery={"retry": 3})
    penstock.subscription("again", "orders", {"ref": ADDRESSABLE}, reply={"uri": "http://127.0.0.1:9/reply"})
    config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "broker-config"}}
    penstock.create(EVENTING, "Broker", "shop", config, annotations=KAFKA_CLASS)
    other = {"eventing.knative.dev/broker.class": "Another"}
    penstock.create(EVENTING, "Broker", "theirs", None, annotations=other)
    spec = {"broker": "shop", "subscriber": {"uri": "http://127.0.0.1:9/"}, "filter": {"attributes": {"type": "no"}}}
    penstock.create(EVENTING, "Trigger", "pay", spec)
    settings = {
        "PENSTOCK_INSTANCE": penstock.name,
        "PENSTOCK_KAFKA": kafka.bootstrap,
        "PENSTOCK_TOPIC_TEMPLATE": penstock.topics,
        "PENSTOCK_BROKER_TOPIC_TEMPLATE": f"{penstock.name}-b.{{namespace}}.{{name}}",
        "PENSTOCK_INGRESS_URL": "http://127.0.0.1:9",
    }
    client = {"bootstrap.servers": kafka.bootstrap}
    with penstock.command("controller", "--once", env={"PENSTOCK_INGRESS_URL": "http://127.0.0.1:9"}) as controller:
        assert controller.wait(LIMIT_S) == 0, controller.tail()
    before = read_contract(client, penstock.name)
    assert len(before.records) == 5

    folder = tmp_path / "exported"
    code, _, said = _export(penstock, "--to", str(folder))
    assert code == 0, said
    assert f"not exported: Broker {penstock.namespace}/theirs: it is not of class Kafka" in said
    assert len(list(folder.rglob("*.yaml"))) == 6
    output = _run(tmp_path, settings, "validate", str(folder), "--strict", "-o", "json")
    assert json.loads(output) == []
    _run(tmp_path, settings, "controller", "--once", "--resources", str(folder))
    after = read_contract(client, penstock.name)
    assert after.records == before.records

    code, printed, _ = _export(penstock)
    assert code == 0
    documents = list(yaml.safe_load_all(printed))
    assert documents == [yaml.safe_load(path.read_text()) for path in _in_order(folder, documents)]
    code, printed, _ = _export(penstock, "-n", "default")
    assert (code, printed) == (0, "")


@pytest.fixture
def beside_core(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[PenstockInCluster]:
    """A cluster with Knative's own kind Subscription, whose objects may refer to a Channel."""
    (subscription,) = [kind for kind in OURS if kind.name == "Subscription"]
    knatives = crd(subscription)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for version in knatives["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": anything}
    with KubeCluster(tmp_path / "kube") as kube:
        penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path, [kind for kind in OURS if kind != subscription])
        kube.admin.apply(knatives).must()
        listed = f"/apis/{MESSAGING}"
        penstock.wait("it is served", lambda: "Subscription" in str(kube.admin.get(listed).must()["resources"]))
        yield penstock


def test_subscription_of_a_channel_in_front_keeps_its_group(
    beside_core: PenstockInCluster, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """Knative's core writes it into spec.subscribers of the KafkaChannel that backs the Channel."""
    penstock = beside_core
    penstock.channel("orders")
    core = {"PENSTOCK_SUBSCRIPTIONS": "core"}
    front = {"apiVersion": MESSAGING, "kind": "Channel", "name": "front"}
    uri = "http://127.0.0.1:9/bill"
    made = penstock.create(MESSAGING, "Subscription", "bill", {"channel": front, "subscriber": {"uri": uri}})
    entry = {"uid": made["metadata"]["uid"], "name": "bill", "generation": 1, "subscriberUri": uri}
    penstock.kube.admin.merge(penstock.path("KafkaChannel", "orders"), {"spec": {"subscribers": [entry]}}).must()
    with penstock.command("controller", "--once", env=core) as controller:
        assert controller.wait(LIMIT_S) == 0, controller.tail()
    client = {"bootstrap.servers": kafka.bootstrap}
    before = read_contract(client, penstock.name)
    assert [subscription.uid for subscription in before.subscriptions] == [made["metadata"]["uid"]]

    folder = tmp_path / "exported"
    code, _, said = _export(penstock, "--to", str(folder), **core)
    assert (code, "not exported" in said) == (0, False), said
    settings = {
        "PENSTOCK_INSTANCE": penstock.name,
        "PENSTOCK_KAFKA": kafka.bootstrap,
        "PENSTOCK_TOPIC_TEMPLATE": penstock.topics,
    }
    _run(tmp_path, settings, "controller", "--once", "--resources", str(folder))
    after = read_contract(client, penstock.name)
    assert [(subscription.uid, subscription.group) for subscription in after.subscriptions] == [
        (subscription.uid, subscription.group) for subscription in before.subscriptions
    ]


def _in_order(folder: Path, documents: list[dict[str, dict[str, str]]]) -> list[Path]:
    return [
        folder
        / document["metadata"]["namespace"]
        / f"{str(document['kind']).lower()}-{document['metadata']['name']}.yaml"
        for document in documents
    ]


def test_api_server_that_is_away_and_a_user_who_may_not_read(
    kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    token = kube.token(penstock.namespace, "default")
    nobody = kube.write_kubeconfig("nobody", token, penstock.namespace)
    code, printed, said = _export(penstock, PENSTOCK_KUBECONFIG=str(nobody))
    assert (code, printed) == (1, "")
    assert "needs to list Penstock's kinds" in said
    server = f"https://127.0.0.1:{free_port()}"
    away = kube.write_kubeconfig("away", token, penstock.namespace, server)
    code, printed, said = _export(penstock, PENSTOCK_KUBECONFIG=str(away))
    assert (code, printed) == (3, "")
    assert "The API server does not answer" in said
    code, _, said = _export(penstock, "--force")
    assert (code, "--force needs --to FOLDER." in said) == (2, True)
