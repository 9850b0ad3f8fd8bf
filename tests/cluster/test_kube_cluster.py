"""The API server that this ring is built on: RBAC and tokens count, the log is complete, and it can be broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.audit import compare, service_account
from tests.support.kube.build import kubernetes_version
from tests.support.kube.client import Answer, resource_path
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.processes import wait_until

RBAC = "rbac.authorization.k8s.io/v1"


def _config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": data}


def _role(name: str, rules: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def _bind(kube: KubeCluster, namespace: str, account: str, role: str) -> None:
    metadata = {"namespace": namespace, "name": account}
    kube.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}).must()
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": role}}
    kube.admin.create({**binding, "subjects": [subject], "roleRef": role_ref}).must()


def test_server_is_of_the_version_that_the_sources_pin(kube: KubeCluster) -> None:
    assert kube.admin.get("/version").must()["gitVersion"] == kubernetes_version()


def test_service_account_may_do_what_its_role_says_and_the_log_tells(
    kube: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    namespace = make_namespace()
    role = _role(namespace, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list"]}])
    kube.admin.create(role).must()
    _bind(kube, namespace, "clerk", namespace)
    clerk = kube.client(namespace, "clerk")
    maps = resource_path("v1", "configmaps", namespace=namespace)
    wait_until("the role counts", lambda: clerk.get(maps).ok, START_LIMIT_S)
    clerk.create(_config_map(namespace, "one", a="1")).must()
    assert clerk.delete(f"{maps}/one").status == 403
    comparison = compare([role], kube.requests(), service_account(namespace, "clerk"))
    assert [str(request) for request in comparison.refused if request.verb == "delete"] == [
        f"delete configmaps {namespace}/one"
    ]
    assert [str(grant) for grant in comparison.unused] == ["get configmaps"]


def test_kubeconfig_of_a_service_account_has_its_token(kube: KubeCluster, make_namespace: Callable[[], str]) -> None:
    namespace = make_namespace()
    path = kube.service_account_kubeconfig(namespace, "default")
    text = path.read_text()
    assert kube.url in text
    assert f"{namespace}.default" in text
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = kube.client(namespace, "default").request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert who.must()["status"]["userInfo"]["username"] == service_account(namespace, "default")


def test_apply_merge_patch_table_and_delete(kube: KubeCluster, make_namespace: Callable[[], str]) -> None:
    namespace = make_namespace()
    document = _config_map(namespace, "one", a="1")
    path = resource_path("v1", "configmaps", namespace=namespace, name="one")
    assert kube.admin.apply(document).status == 201
    assert kube.admin.apply(document).status == 200
    assert kube.admin.merge(path, {"data": {"b": "2"}}).must()["data"] == {"a": "1", "b": "2"}
    assert kube.admin.table(path)[0]["Name"] == "one"
    refused = kube.admin.merge(path, {"data": {"c": 3}})
    assert not refused.ok
    assert refused.message
    kube.admin.delete(path).must()
    assert kube.admin.get(path).status == 404


def test_deleted_namespace_ends(kube: KubeCluster, make_namespace: Callable[[], str]) -> None:
    namespace = make_namespace()
    kube.admin.create(_config_map(namespace, "one")).must()
    path = resource_path("v1", "namespaces", name=namespace)
    kube.admin.delete(path).must()
    wait_until("the namespace is gone", lambda: kube.admin.get(path).status == 404, START_LIMIT_S)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An API server to break, without controllers."""
    with KubeCluster(tmp_path_factory.mktemp("own"), controllers=False) as cluster:
        yield cluster


def test_killed_server_comes_back_with_its_objects(own: KubeCluster) -> None:
    own.admin.create(_config_map("default", "kept", a="1")).must()
    own.api_server.kill()
    with pytest.raises(ConnectionRefusedError):
        own.admin.get("/readyz")
    own.start_api_server()
    path = resource_path("v1", "configmaps", namespace="default", name="kept")
    assert own.admin.get(path).must()["data"] == {"a": "1"}


def test_version_from_before_a_compaction_is_gone(own: KubeCluster) -> None:
    maps = resource_path("v1", "configmaps", namespace="default")
    version = own.admin.create(_config_map("default", "first")).must()["metadata"]["resourceVersion"]
    for number in range(3):
        own.admin.create(_config_map("default", f"later-{number}")).must()
    own.api_server.kill()
    own.start_api_server()  # its watch cache would know the versions
    own.compact()

    def ask() -> Answer:
        return own.admin.get(maps, resourceVersion=version, resourceVersionMatch="Exact")

    wait_until("410 Gone", lambda: ask().status == 410, START_LIMIT_S)


def test_logs_are_in_its_folder(own: KubeCluster) -> None:
    assert own.audit_log.parent == own.folder
    assert list(Path(own.folder).glob("kube-apiserver-*.log"))
