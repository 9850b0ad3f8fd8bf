"""The Services of channels: which are created, which are changed, and which are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.source.cluster.objects import Known, read_object
from controller.source.cluster.services import is_of_channel, plan_service, trim_service

HOST = "ingress.penstock.svc.cluster.local"
PATH = "/api/v1/namespaces/shop/services"


def channel(uid: str = "u1") -> Known:
    metadata = {"namespace": "shop", "name": "orders", "uid": uid, "generation": 1, "resourceVersion": "5"}
    return read_object({"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata})


def service(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "orders-kn-channel", "uid": "s1", "resourceVersion": "7"}
    found = {"metadata": {**metadata, "ownerReferences": [{"uid": "u1"}], "managedFields": []}, "spec": spec}
    return dict(trim_service(found))


def test_a_new_service_is_the_channels_and_leads_to_the_ingress() -> None:
    write = plan_service(channel(), None, HOST)
    assert write is not None
    assert (write.method, write.path) == ("POST", PATH)
    assert write.body["metadata"]["name"] == "orders-kn-channel"
    assert write.body["metadata"]["labels"]["messaging.knative.dev/role"] == "kafka-channel"
    assert write.body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "messaging.knative.dev/v1beta1",
            "kind": "KafkaChannel",
            "name": "orders",
            "uid": "u1",
            "controller": True,
        }
    ]
    assert (write.body["spec"]["type"], write.body["spec"]["externalName"]) == ("ExternalName", HOST)
    assert is_of_channel(write.body, channel())
    assert plan_service(channel(), trim_service(write.body), HOST) is None, "nothing is left to do"


@pytest.mark.parametrize(
    ("spec", "is_changed"),
    [
        ({"type": "ExternalName", "externalName": HOST, "ports": [{"port": 8080}]}, False),
        ({"type": "ExternalName", "externalName": "kafka-channel-ingress.knative-eventing.svc.cluster.local"}, True),
        ({"type": "ClusterIP", "clusterIP": "10.0.0.7", "selector": {"app": "x"}}, True),
        ({}, True),
    ],
)
def test_a_service_of_the_channel_that_leads_elsewhere_is_changed(spec: dict[str, Any], is_changed: bool) -> None:
    """Such as the one that Knative's own KafkaChannel has left, or somebody has edited."""
    write = plan_service(channel(), service(**spec), HOST)
    assert (write is not None) is is_changed
    if write is not None:
        assert (write.method, write.path) == ("PATCH", f"{PATH}/orders-kn-channel")
        assert write.body["spec"] == {"type": "ExternalName", "externalName": HOST}
        assert write.body["metadata"] == {"uid": "s1", "resourceVersion": "7"}, "no other one, and no newer one"


def test_a_service_of_a_former_channel_of_the_name_is_not_the_channels() -> None:
    assert is_of_channel(service(), channel())
    assert not is_of_channel(service(), channel("u2"))
    assert not is_of_channel({"metadata": {}}, channel())
