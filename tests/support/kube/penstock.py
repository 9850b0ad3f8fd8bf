"""Penstock in a test's cluster: a namespace, our CRDs, and a ServiceAccount that may do what the controller does.

Each has a namespace, an instance and topics of its own, so that any number of them share a cluster and a Kafka.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.operations.manifests import crd_file
from knative.resources.kinds import OURS
from knative.resources.schema import Kind
from tests.support.kube.client import resource_path
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import controller_role, controller_rules, install
from tests.support.processes import Child, Worker, wait_until

LIMIT_S = 300.0
MESSAGING = "messaging.knative.dev/v1"
CHANNELS = "messaging.knative.dev/v1beta1"
EVENTING = "eventing.knative.dev/v1"
RESETS = "kafka.eventing.knative.dev/v1alpha1"
KAFKA_CLASS = {"eventing.knative.dev/broker.class": "Kafka"}

Json = dict[str, Any]


def converges(what: str, holds: Callable[[], bool]) -> None:
    """Until it holds, and print how long that took. How long depends on which requests a fault meets: a Lease that
    cannot be renewed several times in a row is lost, and must be won again."""
    began_s = time.monotonic()
    wait_until(what, holds, LIMIT_S, poll_s=0.1)
    print(f"{what}: converged after {time.monotonic() - began_s:.1f} s")


class PenstockInCluster:
    """One installation."""

    def __init__(self, kube: KubeCluster, bootstrap: str, folder: Path, kinds: Sequence[Kind] = OURS) -> None:
        """`kinds`: whose CRDs are installed, unless they are already."""
        self.kube, self._bootstrap, self.folder = kube, bootstrap, folder
        self.name = f"i{uuid.uuid4().hex[:8]}"
        self.namespace = f"t-{self.name}"
        self.topics = f"{self.name}-t.{{namespace}}.{{name}}"
        self._install(kinds)

    def _install(self, kinds: Sequence[Kind]) -> None:
        admin = self.kube.admin
        install(self.kube, *(crd_file(kind) for kind in kinds))
        self.kube.create_namespace(self.namespace)
        where = {"namespace": self.namespace, "name": "controller"}
        admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where}).must()
        self._grant("ClusterRole", self.name, {"name": self.name})
        self._grant("Role", "controller", where)

    def _grant(self, kind: str, name: str, metadata: Json) -> None:
        """The rules of the manifests, under a name of its own."""
        rules = controller_rules() if kind == "ClusterRole" else controller_role(kind)["rules"]
        api = "rbac.authorization.k8s.io/v1"
        self.kube.admin.create({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": rules}).must()
        subject = {"kind": "ServiceAccount", "namespace": self.namespace, "name": "controller"}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding = {"apiVersion": api, "kind": f"{kind}Binding", "metadata": metadata}
        self.kube.admin.create({**binding, "subjects": [subject], "roleRef": ref}).must()

    def worker(
        self, role: str = "all", env: Mapping[str, str] | None = None, api_port: int = 0, python: str = sys.executable
    ) -> Worker:
        """A started worker. One with a controller knows the cluster by a ServiceAccount's token, and only this
        namespace. `api_port`: of a proxy before the API server; `python`: that of another version."""
        settings = self._settings(api_port if role in ("all", "controller") else None)
        return Worker(role, self._bootstrap, self.folder, None, {**settings, **(env or {})}, LIMIT_S, python)

    def command(
        self, *arguments: str, fault: tuple[str, str] = ("none", ""), env: Mapping[str, str] | None = None
    ) -> Child:
        """A started `penstock` command with the settings of a controller. `fault`: what `controller_faults` does to it,
        unless it starts another program."""
        settings = {**self._settings(0), "PENSTOCK_KAFKA": self._bootstrap, **(env or {})}
        command = [sys.executable, "-m", "tests.support.controller_faults", *fault, *arguments]
        return Child(arguments[0], command, self.folder, settings)

    def _settings(self, api_port: int | None) -> dict[str, str]:
        settings = {
            "PENSTOCK_INSTANCE": self.name,
            "PENSTOCK_TOPIC_TEMPLATE": self.topics,
            "PENSTOCK_BROKER_TOPIC_TEMPLATE": f"{self.name}-b.{{namespace}}.{{name}}",
            "PENSTOCK_BIND": "127.0.0.1",
            "PENSTOCK_SUBSCRIPTIONS": "own",
        }
        if api_port is None:
            return settings
        token = self.kube.token(self.namespace, "controller")
        server = f"https://127.0.0.1:{api_port}" if api_port else ""
        kubeconfig = self.kube.write_kubeconfig(f"{self.name}.controller", token, self.namespace, server)
        return settings | {"PENSTOCK_RESOURCES": f"cluster:{self.namespace}", "PENSTOCK_KUBECONFIG": str(kubeconfig)}

    # -- objects

    def create(self, api: str, kind: str, name: str, spec: Json | None = None, **metadata: Any) -> Json:
        where = {"namespace": self.namespace, "name": name}
        document = {"apiVersion": api, "kind": kind, "metadata": {**where, **metadata}}
        created: Json = self.kube.admin.create(document if spec is None else {**document, "spec": spec}).must()
        return created

    def channel(self, name: str, partitions: int = 1, **spec: Any) -> Json:
        return self.create(CHANNELS, "KafkaChannel", name, {"numPartitions": partitions, **spec})

    def subscription(self, name: str, channel: str, subscriber: Json, **more: Any) -> Json:
        """A Subscription that starts at the beginning of its channel."""
        ref = {"apiVersion": CHANNELS, "kind": "KafkaChannel", "name": channel}
        annotations = {"penstock.dev/start": "earliest"}
        spec = {"channel": ref, "subscriber": subscriber, **more}
        return self.create(MESSAGING, "Subscription", name, spec, annotations=annotations)

    def path(self, kind: str, name: str = "") -> str:
        """Where objects of one of our kinds are."""
        crd = next(crd for crd in OURS if crd.name == kind)
        return resource_path(f"{crd.group}/{crd.versions[0]}", crd.plural, namespace=self.namespace, name=name)

    def read(self, kind: str, name: str) -> Json:
        """The object; {} if there is none."""
        answer = self.kube.admin.get(self.path(kind, name))
        return dict(answer.body) if answer.ok else {}

    def exists(self, name: str, kind: str = "KafkaChannel") -> bool:
        return bool(self.read(kind, name))

    def delete(self, kind: str, name: str) -> None:
        self.kube.admin.delete(self.path(kind, name)).must()

    def condition(self, kind: str, name: str, type_: str = "Ready") -> tuple[str, str]:
        """(status, reason) of a condition, if it is about the present spec."""
        resource = self.read(kind, name)
        status = resource.get("status", {})
        is_present = status.get("observedGeneration") == resource.get("metadata", {}).get("generation")
        for condition in status.get("conditions", []) if is_present else ():
            if condition["type"] == type_:
                return condition["status"], condition.get("reason", "")
        return "", ""

    def is_published(self, name: str, kind: str = "KafkaChannel") -> bool:
        """Whether the contract has the present generation of a channel or Broker."""
        return self.condition(kind, name, "ContractPublished") == ("True", "")

    def topic(self, name: str) -> str:
        return self.topics.format(namespace=self.namespace, name=name)

    def wait_ready(self, kind: str, *names: str) -> None:
        self.wait(f"{kind} {', '.join(names)} ready", lambda: all(self.condition(kind, n)[0] == "True" for n in names))

    def wait_gone(self, kind: str, *names: str) -> None:
        self.wait(f"{kind} {', '.join(names)} gone", lambda: not any(self.read(kind, name) for name in names))

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        wait_until(what, holds, LIMIT_S, poll_s=0.2)

    def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """(type, reason) of the Kubernetes Events about an object, in order."""
        path = resource_path("events.k8s.io/v1", "events", namespace=self.namespace)
        items = self.kube.admin.get(path).must()["items"]
        mine = [item for item in items if (item["regarding"]["kind"], item["regarding"]["name"]) == (kind, name)]
        return [(event["type"], event["reason"]) for event in sorted(mine, key=lambda event: event["eventTime"])]
