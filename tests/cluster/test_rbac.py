"""The roles of the manifests in an API server: accepted, and exactly what the controller and Knative's core may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kube.audit import compare, service_account
from tests.support.kube.client import KubeClient, path_of, resource_path
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.kube.manifests import CONTROLLER, NAMESPACE, WORKER, controller_role, rbac
from tests.support.processes import wait_until

RBAC = "rbac.authorization.k8s.io/v1"
CHANNELS = resource_path("messaging.knative.dev/v1beta1", "kafkachannels")


@pytest.fixture(scope="module")
def with_roles(with_crds: KubeCluster) -> KubeCluster:
    """With the roles, and the namespace that they name."""
    with_crds.create_namespace(NAMESPACE)
    for document in rbac():
        with_crds.admin.create(document).must()
    return with_crds


def _channel(namespace: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": "orders"}
    return {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": metadata}


def _may(client: KubeClient, path: str) -> None:
    wait_until(f"the roles count for {path}", lambda: client.get(path).ok, START_LIMIT_S)


def test_controller_may_do_its_work_and_the_audit_finds_the_rest_unused(
    with_roles: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    namespace = make_namespace()
    controller = with_roles.client(NAMESPACE, CONTROLLER)
    _may(controller, CHANNELS)
    document = _channel(namespace)
    with_roles.admin.create(document).must()
    path = path_of(document)
    assert controller.merge(path, {"metadata": {"finalizers": ["penstock.dev/finalizer"]}}).ok
    status = {**document, "status": {"observedGeneration": 1}}
    assert controller.request("PATCH", f"{path}/status", status, content_type="application/apply-patch+yaml",
                              fieldManager="penstock", force="true").ok  # fmt: skip
    assert controller.merge(path, {"metadata": {"finalizers": None}}).ok
    user = service_account(NAMESPACE, CONTROLLER)
    before = compare([controller_role("ClusterRole")], with_roles.requests(), user)
    assert before.refused == ()
    unused = {str(grant) for grant in before.unused}
    assert "patch kafkachannels.messaging.knative.dev" not in unused
    assert "patch kafkachannels/status.messaging.knative.dev" not in unused
    assert "create events.events.k8s.io" in unused
    assert controller.delete(path).status == 403
    after = compare([controller_role("ClusterRole")], with_roles.requests(), user)
    assert [str(request) for request in after.refused] == [
        f"delete kafkachannels.messaging.knative.dev {namespace}/orders"
    ]


@pytest.mark.parametrize(
    "path",
    [
        resource_path("v1", "secrets"),
        resource_path("v1", "pods"),
        resource_path("v1", "namespaces"),
        resource_path("coordination.k8s.io/v1", "leases", namespace="kube-system"),
        resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ],
)
def test_controller_may_not_read_more(with_roles: KubeCluster, path: str) -> None:
    assert with_roles.client(NAMESPACE, CONTROLLER).get(path).status == 403


def test_controller_may_hold_a_lease_in_its_own_namespace_only(
    with_roles: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    controller = with_roles.client(NAMESPACE, CONTROLLER)

    def lease(namespace: str) -> dict[str, Any]:
        metadata = {"namespace": namespace, "name": "penstock"}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}

    wait_until("the role counts", lambda: controller.create(lease(NAMESPACE)).status in (201, 409), START_LIMIT_S)
    document = controller.get(path_of(lease(NAMESPACE))).must()
    document["spec"]["holderIdentity"] = "me"
    controller.request("PUT", path_of(document), document).must()
    assert controller.create(lease(make_namespace())).status == 403


def test_worker_may_do_nothing(with_roles: KubeCluster) -> None:
    worker = with_roles.client(NAMESPACE, WORKER)
    for path in (CHANNELS, resource_path("v1", "configmaps"), resource_path("v1", "services"), "/api/v1/secrets"):
        assert worker.get(path).status == 403


def test_cores_roles_get_the_rules_of_the_duck_types(
    with_roles: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    """Knative's core has its rights by aggregation, and writes the whole array of subscribers."""
    namespace, admin = make_namespace(), with_roles.admin
    selector = {"clusterRoleSelectors": [{"matchLabels": {"duck.knative.dev/channelable": "true"}}]}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": f"core-{namespace}"}}
    admin.create({**role, "aggregationRule": selector, "rules": []}).must()
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"core-{namespace}"}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "default"}
    admin.create({**role, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]}).must()
    core = with_roles.client(namespace, "default")
    _may(core, CHANNELS)
    core.create(_channel(namespace)).must()
    entries = [{"uid": "u1", "name": "a", "generation": 1, "subscriberUri": "http://a/"}]
    path = path_of(_channel(namespace))
    assert core.merge(path, {"spec": {"subscribers": entries}}).must()["spec"]["subscribers"] == entries
    core.delete(path).must()


@pytest.mark.parametrize(("role", "status"), [("view", 403), ("edit", 201), ("admin", 201)])
def test_users_of_a_namespace_have_kubernetes_own_roles(
    with_roles: KubeCluster, make_namespace: Callable[[], str], role: str, status: int
) -> None:
    """Who may view or edit a namespace may do that with our kinds too, and with the offsets of its subscriptions."""
    namespace, admin = make_namespace(), with_roles.admin
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "default"}
    metadata = {"namespace": namespace, "name": role}
    binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata, "roleRef": ref, "subjects": [subject]}
    admin.create(binding).must()
    user = with_roles.client(namespace, "default")
    for plural, version in (("kafkachannels", "messaging.knative.dev/v1beta1"),
                            ("resetoffsets", "kafka.eventing.knative.dev/v1alpha1")):  # fmt: skip
        _may(user, resource_path(version, plural, namespace=namespace))
    wait_until("the role counts", lambda: user.create(_channel(namespace)).status in (status, 409), START_LIMIT_S)
    assert user.delete(path_of(_channel(namespace))).status == (200 if status == 201 else 403)
    assert user.get(CHANNELS).status == 403, "of other namespaces"


def test_controller_may_read_other_addressables_once_their_roles_are_labelled(
    with_roles: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    # A kind of somebody else, such as a Knative Service; EndpointSlices stand for it here.
    slices = resource_path("discovery.k8s.io/v1", "endpointslices")
    controller = with_roles.client(NAMESPACE, CONTROLLER)
    assert controller.get(slices).status == 403
    metadata = {"name": f"addressable-{make_namespace()}", "labels": {"duck.knative.dev/addressable": "true"}}
    rule = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    document = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}
    with_roles.admin.create(document).must()
    _may(controller, slices)
    with_roles.admin.delete(path_of(document)).must()
