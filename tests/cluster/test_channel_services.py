"""Each KafkaChannel has a Service as in Knative, which leads to the ingress."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube.client import resource_path
from tests.support.kube.penstock import PenstockInCluster
from tests.system.sending import PLAIN, exchange, request

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

HOST = "penstock-ingress.penstock.svc.cluster.local"
TAKEN = ("True", "ServiceNotWritten")


def path(penstock: PenstockInCluster, channel: str) -> str:
    return resource_path("v1", "services", namespace=penstock.namespace, name=f"{channel}-kn-channel")


def service(penstock: PenstockInCluster, channel: str) -> dict[str, Any]:
    answer = penstock.kube.admin.get(path(penstock, channel))
    return dict(answer.body) if answer.ok else {}


def leads_to(penstock: PenstockInCluster, channel: str) -> object:
    return service(penstock, channel).get("spec", {}).get("externalName")


def wait_addressable(penstock: PenstockInCluster, expected: tuple[str, str], *channels: str) -> None:
    """Until all of them say so."""
    penstock.wait(
        f"Addressable is {expected}",
        lambda: {penstock.condition("KafkaChannel", name, "Addressable") for name in channels} == {expected},
    )


def test_service_of_a_channel_comes_is_kept_and_goes(penstock: PenstockInCluster) -> None:
    admin, env = penstock.kube.admin, {"PENSTOCK_CHANNEL_SERVICES": HOST}
    with penstock.worker(env=env) as worker:
        worker.wait_ready()
        uid = penstock.channel("orders")["metadata"]["uid"]
        penstock.wait_ready("KafkaChannel", "orders")
        penstock.wait("the Service", lambda: leads_to(penstock, "orders") == HOST)
        document = service(penstock, "orders")
        assert document["spec"]["type"] == "ExternalName"
        assert [owner["uid"] for owner in document["metadata"]["ownerReferences"]] == [uid]
        name = f"orders-kn-channel.{penstock.namespace}.svc.cluster.local"
        urls = [address["url"] for address in penstock.read("KafkaChannel", "orders")["status"]["addresses"]]
        assert f"http://{name}" in urls
        # What a sender gets who follows that name.
        event = request("/", [*PLAIN, ("ce-id", "one")], b"", host=name)
        penstock.wait("an event is stored", lambda: exchange(worker.port, event).status == 202)

        admin.merge(path(penstock, "orders"), {"spec": {"externalName": "elsewhere.example"}}).must()
        penstock.wait("an edit is undone", lambda: leads_to(penstock, "orders") == HOST)
        admin.delete(path(penstock, "orders")).must()
        penstock.wait("it is there again", lambda: leads_to(penstock, "orders") == HOST)
        assert service(penstock, "orders")["metadata"]["uid"] != document["metadata"]["uid"]
        penstock.delete("KafkaChannel", "orders")
        penstock.wait_gone("KafkaChannel", "orders")
        penstock.wait("it goes with its channel", lambda: not service(penstock, "orders"))
        assert worker.terminate() == 0, worker.tail()


def test_service_of_somebody_else_stays_and_is_named(penstock: PenstockInCluster) -> None:
    admin, env = penstock.kube.admin, {"PENSTOCK_CHANNEL_SERVICES": HOST}
    theirs = {"ports": [{"port": 80}], "selector": {"app": "theirs"}}
    for channel, labels in (("taken", {}), ("labelled", {"messaging.knative.dev/role": "kafka-channel"})):
        penstock.create("v1", "Service", f"{channel}-kn-channel", theirs, labels=labels)
    long = "c" * 60
    names = ("taken", "labelled", long)
    with penstock.worker("controller", env) as controller:
        for channel in (*names, "orders"):
            penstock.channel(channel)
        wait_addressable(penstock, TAKEN, *names)
        penstock.wait("the others have theirs", lambda: leads_to(penstock, "orders") == HOST)
        for channel in names[:2]:
            assert service(penstock, channel)["spec"]["selector"] == {"app": "theirs"}
        assert penstock.is_published("taken"), "its other addresses are served"
        messages = {
            name: condition["message"]
            for name in names
            for condition in penstock.read("KafkaChannel", name)["status"]["conditions"]
            if condition["type"] == "Addressable"
        }
        assert f"the Service {penstock.namespace}/taken-kn-channel cannot be written" in messages["taken"]
        assert "a Service of this name exists" in messages["taken"]
        assert "63 characters" in messages[long]
        for channel in names[:2]:
            admin.delete(path(penstock, channel)).must()
        wait_addressable(penstock, ("True", ""), *names[:2])
        assert [leads_to(penstock, channel) for channel in names[:2]] == [HOST, HOST]
        assert controller.terminate() == 0, controller.tail()


def test_without_the_setting_there_are_no_services(penstock: PenstockInCluster) -> None:
    with penstock.worker("controller") as controller:
        penstock.channel("orders")
        penstock.wait("it is published", lambda: penstock.is_published("orders"))
        assert controller.terminate() == 0, controller.tail()
    listed = penstock.kube.admin.get(resource_path("v1", "services", namespace=penstock.namespace)).must()
    assert listed["items"] == []
