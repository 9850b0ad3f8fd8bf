"""Knative eventing's own controller and webhook beside a test's API server, with its CRDs, roles and ConfigMaps.

    API server -> (Service of type ExternalName, port of the registration) -> webhook      both as ServiceAccounts
               <- controller: Channel, Subscription, Sequence, Parallel, EventType ...     with the roles of Knative

The webhook makes its certificate itself, and registers itself with it. Nothing here has nodes: images named in objects
never run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube.build import CORE_PROGRAMS, ensure_core
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.kube.manifests import served
from tests.support.processes import Child, Failed, StartedByWith, free_port, wait_until

NAMESPACE = "knative-eventing"
#: What only nodes would run, and the Service, which has no pods to lead to.
_OF_NODES = frozenset({"Deployment", "StatefulSet", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Service"})

Json = dict[str, Any]


class KnativeCore(StartedByWith):
    """Between `with` and its end it reconciles, and admits what is written."""

    def __init__(self, kube: KubeCluster, folder: Path, *config_maps: Json) -> None:
        """`config_maps`: of its namespace, in place of those that it comes with; their other keys stay."""
        self._kube, self._folder, self._config_maps = kube, folder, config_maps
        self._port = free_port()
        self._children: list[Child] = []

    def start(self) -> None:
        """Install and start it; return when the webhook fills in defaults."""
        built = ensure_core()
        documents = [document for document in yaml.safe_load_all((built / "eventing.yaml").read_text()) if document]
        self._install(documents)
        deployments = {
            document["metadata"]["name"]: document for document in documents if document["kind"] == "Deployment"
        }
        for program in reversed(CORE_PROGRAMS):  # what the controller writes is admitted by the webhook
            self._children.append(self._start(built / program, deployments[f"eventing-{program}"]))
        try:
            wait_until("Knative's webhook fills in defaults", self._has_defaults, START_LIMIT_S)
        except Failed as error:
            raise Failed(f"{error}\n{self.tail()}") from error

    def stop(self) -> None:
        """Kill both; the objects stay."""
        for child in self._children:
            child.kill()

    def tail(self) -> str:
        """What both said last."""
        return "\n".join(child.tail() for child in self._children)

    def _install(self, documents: list[Json]) -> None:
        admin = self._kube.admin
        for document in documents:
            if document["kind"] not in _OF_NODES:
                for client in _clients(document):
                    client["service"]["port"] = self._port
                admin.apply(document).must()
        metadata = {"namespace": NAMESPACE, "name": "eventing-webhook"}
        spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
        admin.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}).must()
        for config_map in self._config_maps:
            admin.apply(config_map).must()
        for document in documents:
            if document["kind"] == "CustomResourceDefinition":
                what = f"{document['metadata']['name']} is served"
                wait_until(what, functools.partial(served, self._kube, document), START_LIMIT_S)

    def _start(self, program: Path, deployment: Json) -> Child:
        pod = deployment["spec"]["template"]["spec"]
        variables = pod["containers"][0]["env"]
        env = {variable["name"]: variable["value"] for variable in variables if "value" in variable}
        ours = {
            "SYSTEM_NAMESPACE": NAMESPACE,
            "POD_NAME": program.name,
            "WEBHOOK_PORT": str(self._port),
            "PROFILING_PORT": str(free_port()),
            "KUBECONFIG": str(self._kube.service_account_kubeconfig(NAMESPACE, pod["serviceAccountName"])),
        }
        return Child(f"eventing-{program.name}", [str(program)], self._folder, env | ours)

    def _has_defaults(self) -> bool:
        for child in self._children:
            if not child.running:
                raise Failed(f"{child.name} ended")
        metadata = {"namespace": "default", "name": "any"}
        broker = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": {}}
        answer = self._kube.admin.create(broker, dryRun="All")
        return answer.ok and "config" in answer.body["spec"]


def _clients(document: Json) -> Iterator[Json]:
    """Where the API server reaches the webhook, for admission or for conversion."""
    for webhook in document.get("webhooks", ()):
        yield webhook["clientConfig"]
    conversion = document.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        yield conversion["webhook"]["clientConfig"]
