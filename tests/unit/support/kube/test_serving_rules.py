"""The table of Serving's rules: our Knative Services break none, and each rule finds what breaks it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.kube.kustomize import COMPONENTS, OVERLAYS
from tests.support.kube.manifests import documents
from tests.support.kube.serving_rules import problems

FILES = [OVERLAYS / "knative" / "ingress.yaml", COMPONENTS / "dispatcher-service" / "service.yaml"]
SERVICES = [document for document in documents(*FILES) if document["kind"] == "Service"]
SECRET = {"name": "s", "secret": {"secretName": "s"}}
MOUNT = {"name": "s", "mountPath": "/s"}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: str(service["metadata"]["name"]))
def test_our_services_break_no_rule(service: dict[str, Any]) -> None:
    assert problems(service) == []


@pytest.mark.parametrize(
    ("pod", "container", "problem"),
    [
        (
            {"terminationGracePeriodSeconds": 60},
            {},
            "terminationGracePeriodSeconds is not allowed in the spec of a pod",
        ),
        ({"initContainers": []}, {}, "initContainers is not allowed in the spec of a pod"),
        ({"topologySpreadConstraints": []}, {}, "topologySpreadConstraints is not allowed in the spec of a pod"),
        ({"containerConcurrency": 1001}, {}, "containerConcurrency is not from 0 to 1000"),
        ({"timeoutSeconds": 601}, {}, "timeoutSeconds is not from 1 to 600"),
        ({}, {"lifecycle": {}}, "lifecycle is not allowed in a container"),
        ({}, {"name": "queue-proxy"}, "the name queue-proxy is reserved"),
        ({}, {"securityContext": {"privileged": True}}, "securityContext.privileged is not allowed"),
        ({}, {"env": [{"name": "PORT", "value": "1"}]}, "variable PORT is reserved"),
        ({}, {"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}, "variable A has a source that is not allowed"),
        ({}, {"ports": [{"containerPort": 9090}], "livenessProbe": None}, "port 9090 is reserved"),
        ({}, {"ports": [{"containerPort": 8080, "name": "http"}]}, "port name http is not '', http1 or h2c"),
        ({}, {"ports": [{"containerPort": 8080}, {"containerPort": 8081}]}, "more than one port"),
        ({}, {"ports": [{"containerPort": 8080, "hostPort": 80}]}, "a port is not a TCP port of the pod"),
        ({}, {"readinessProbe": {"periodSeconds": 1}}, "readinessProbe is not of exactly one kind"),
        ({}, {"livenessProbe": {"httpGet": {"port": 8081}}}, "livenessProbe asks another port than the container's"),
        (
            {},
            {"readinessProbe": {"tcpSocket": {}, "periodSeconds": 0, "timeoutSeconds": 1}},
            "readinessProbe with periodSeconds 0 has a threshold or a time limit",
        ),
        ({"volumes": [SECRET]}, {"volumeMounts": [MOUNT]}, "the mount of volume s is not readOnly"),
        ({"volumes": [SECRET]}, {"volumeMounts": []}, "volume s is not mounted"),
        ({"volumes": []}, {"volumeMounts": [MOUNT]}, "there is no volume s"),
        (
            {"volumes": [{"name": "s", "hostPath": {"path": "/"}}]},
            {"volumeMounts": [{**MOUNT, "readOnly": True}]},
            "volume s is of a kind that is not allowed",
        ),
    ],
)
def test_each_rule_finds_what_breaks_it(pod: dict[str, Any], container: dict[str, Any], problem: str) -> None:
    service = copy.deepcopy(SERVICES[0])
    spec = service["spec"]["template"]["spec"]
    spec.update(pod)
    spec["containers"][0].update(container)
    assert problem in problems(service)


def test_scale_of_which_the_least_is_more_than_the_most() -> None:
    service = copy.deepcopy(SERVICES[0])
    service["spec"]["template"]["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] = "11"
    assert problems(service) == ["min-scale 11 and max-scale 10 contradict each other"]


def test_dispatcher_is_never_scaled_to_nothing_and_ingress_may_be() -> None:
    least = {
        service["metadata"]["name"]: service["spec"]["template"]["metadata"]["annotations"][
            "autoscaling.knative.dev/min-scale"
        ]
        for service in SERVICES
    }
    assert least == {"penstock-ingress": "0", "penstock-dispatcher": "1"}
