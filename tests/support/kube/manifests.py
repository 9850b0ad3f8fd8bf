"""Puts manifests of the repository into an API server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from app.operations.doctor.cluster import SERVICES_ROLE
from app.operations.manifests import CRDS
from tests.support.kube.client import path_of
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.processes import wait_until

RBAC = CRDS.parent / "rbac"
#: The namespace that the manifests name.
NAMESPACE = "penstock"
CONTROLLER = "penstock-controller"
WORKER = "penstock-worker"


def documents(*files: Path) -> list[dict[str, Any]]:
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def definition(api_version: str, kind: str, schema: dict[str, Any], **more: object) -> dict[str, Any]:
    """A CRD of a kind of somebody else, as far as it matters here. `more`: other fields of its one version."""
    group, _, version = api_version.partition("/")
    singular = kind.lower()
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


#: A schema that takes everything.
OPEN_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def rbac() -> list[dict[str, Any]]:
    """All objects of the folder with the roles, in the order of its kustomization."""
    listed = yaml.safe_load((RBAC / "kustomization.yaml").read_text())["resources"]
    return documents(*(RBAC / name for name in listed))


def controller_role(kind: str) -> dict[str, Any]:
    """The controller's "ClusterRole", or its "Role" in its own namespace."""
    return next(
        document for document in rbac() if (document["kind"], document["metadata"]["name"]) == (kind, CONTROLLER)
    )


def channel_services_role() -> list[dict[str, Any]]:
    """The ClusterRole that PENSTOCK_CHANNEL_SERVICES needs, and its binding."""
    return documents(SERVICES_ROLE)


def controller_rules() -> list[dict[str, Any]]:
    """What the controller may do in each namespace, with PENSTOCK_CHANNEL_SERVICES."""
    return [rule for role in (controller_role("ClusterRole"), channel_services_role()[0]) for rule in role["rules"]]


def install(kube: KubeCluster, *files: Path) -> None:
    """Apply everything in the files, and wait until CRDs among it are served."""
    for document in documents(*files):
        kube.admin.apply(document).must()
        if document["kind"] == "CustomResourceDefinition":
            what = f"{document['metadata']['name']} is served"
            wait_until(what, functools.partial(served, kube, document), START_LIMIT_S)


def served(kube: KubeCluster, crd: dict[str, Any]) -> bool:
    """Whether the API server serves all versions of a kind."""
    status = kube.admin.get(path_of(crd)).must().get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    spec = crd["spec"]
    paths = [f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}" for version in spec["versions"]]
    return conditions.get("Established") == "True" and all(kube.admin.get(path).ok for path in paths)
