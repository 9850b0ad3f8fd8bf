"""The overlays as `kubectl apply -k` sends them: rendered by kustomize, and every field accepted by an API server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings.fields import Settings
from knative.contract.broker_secrets import is_reference
from tables.kafka.connection.secret import paths
from tests.support.kube.client import path_of
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.kustomize import COMPONENTS, MANIFESTS, OVERLAYS, render, write_kustomization
from tests.support.kube.manifests import install
from tests.support.kube.serving_rules import problems
from tests.support.processes import REPOSITORY

#: Structural copies of what other projects bring into a cluster.
FOREIGN_CRDS = sorted((REPOSITORY / "tests" / "data" / "crds").glob("*.yaml"))
WITH = {
    "knative": (
        *(
            "console",
            "channel-services",
            "pod-monitor",
            "alerts",
            "dashboards",
            "keda",
            "spark-operator-jobs",
            "own-token",
        ),
        "kafka-secret",
    ),
    "plain": ("console", "pod-monitor", "alerts", "dashboards", "keda", "spark-jobs", "own-token", "kafka-secret"),
    "dev": ("pod-monitor", "alerts", "dashboards", "own-token", "kafka-secret"),
}
SPARK = "ScheduledSparkApplication"
#: What must be there before an API server takes the rest, also with a dry run.
_FIRST = ("Namespace", "ServiceAccount")


@pytest.fixture(scope="module")
def with_foreign_crds(with_crds: KubeCluster) -> KubeCluster:
    """With our CRDs and those that the manifests refer to."""
    install(with_crds, *FOREIGN_CRDS)
    return with_crds


def _settings(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (name,) = (name for name in _names(documents, "ConfigMap") if name.startswith("penstock-settings-"))
    return next(document["data"] for document in documents if document["metadata"]["name"] == name)


def _names(documents: list[dict[str, Any]], kind: str) -> set[str]:
    return {document["metadata"]["name"] for document in documents if document["kind"] == kind}


def _templates(documents: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in documents:
        spec = document.get("spec") or {}
        spec = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
        if document["kind"] == SPARK:
            for role in ("driver", "executor"):
                yield f"{document['metadata']['name']}-{role}", spec["template"][role]["template"]
        elif "template" in spec:
            yield document["metadata"]["name"], spec["template"]


def test_every_overlay_and_component_is_tried() -> None:
    assert {folder.name for folder in OVERLAYS.iterdir()} == set(WITH)
    listed = {
        Path(component).name
        for overlay in OVERLAYS.iterdir()
        for component in yaml.safe_load((overlay / "kustomization.yaml").read_text()).get("components", ())
    }
    assert {folder.name for folder in COMPONENTS.iterdir()} == listed | {"dispatcher-service"}.union(*WITH.values())


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_api_server_accepts_each_overlay(
    with_foreign_crds: KubeCluster, make_namespace: Callable[[], str], tmp_path: Path, overlay: str
) -> None:
    """In a namespace of the user's choice, with all components that go with it; the pods in a restricted namespace."""
    namespace, admin = make_namespace(), with_foreign_crds.admin
    user = write_kustomization(
        tmp_path / "user", [OVERLAYS / overlay], [COMPONENTS / name for name in WITH[overlay]], namespace=namespace
    )
    documents = render(user)
    for document in (document for document in documents if document["kind"] in _FIRST):
        admin.apply(document).must()
    for document in documents:
        answer = admin.apply(document, dryRun="All")
        assert answer.ok, f"{document['kind']} {document['metadata']['name']}: {answer.message}"
    labels = admin.get(path_of({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).must()
    assert labels["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, template in _templates(documents):
        pod = _pod(namespace, name, template["spec"])
        answer = admin.create(pod, dryRun="All")
        assert answer.ok, f"the pod of {name}: {answer.message}"


def test_api_server_accepts_the_census(with_foreign_crds: KubeCluster) -> None:
    """Objects and pods, the pods in a restricted namespace; every object that kafka-scale has."""
    admin = with_foreign_crds.admin
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kafka", "labels": labels}}).must()
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "kafka", "name": "default"}})
    census = [
        document
        for path in sorted((REPOSITORY / "examples" / "census" / "manifests").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    assert sorted(document["kind"] for document in census) == [
        "Deployment", "Deployment", "Job", "KafkaTopic", "KafkaTopic", "Pod", "PodMonitor", "Role", "RoleBinding",
        "Service",
    ]  # fmt: skip
    for document in census:
        answer = admin.apply(document, dryRun="All")
        assert answer.ok, f"{document['kind']} {document['metadata']['name']}: {answer.message}"
    for name, template in _templates(document for document in census if document["kind"] != "Pod"):
        answer = admin.create(_pod("kafka", name, template["spec"]), dryRun="All")
        assert answer.ok, f"the pod of {name}: {answer.message}"


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_no_overlay_has_kinds_of_knative(overlay: str) -> None:
    """They would replace Knative's own."""
    kinds = _names(render(OVERLAYS / overlay), "CustomResourceDefinition")
    assert kinds == {"kafkachannels.messaging.knative.dev", "resetoffsets.kafka.eventing.knative.dev"}


def test_console_is_for_those_who_may_forward_a_port(tmp_path: Path) -> None:
    """It listens on loopback, no Service selects its pod, and the only policy for it opens no port."""
    documents = render(write_kustomization(tmp_path / "user", [OVERLAYS / "plain"], [COMPONENTS / "console"]))
    (template,) = (template for name, template in _templates(documents) if name == "penstock-console")
    variables = {variable["name"]: variable["value"] for variable in template["spec"]["containers"][0]["env"]}
    assert (variables["PENSTOCK_ADMIN_BIND"], variables["PENSTOCK_CONSOLE"]) == ("127.0.0.1", "read")
    labels = template["metadata"]["labels"].items()
    services = [document for document in documents if (document["apiVersion"], document["kind"]) == ("v1", "Service")]
    assert [service for service in services if service["spec"]["selector"].items() <= labels] == []
    policies = {
        document["metadata"]["name"]: document["spec"] for document in documents if document["kind"] == "NetworkPolicy"
    }
    mine = [name for name, spec in policies.items() if spec["podSelector"]["matchLabels"].items() <= labels]
    assert mine == ["penstock-console"]
    assert policies["penstock-console"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in policies["penstock-console"]


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_services_of_channels_lead_to_ingress(tmp_path: Path, overlay: str) -> None:
    """To port 80 of a Service that selects its pods; with Serving, to the port of the proxy in them."""
    added = [COMPONENTS / "channel-services"] if overlay == "knative" else []
    documents = render(write_kustomization(tmp_path / overlay, [OVERLAYS / overlay], added))
    name, namespace, *_ = _settings(documents)["PENSTOCK_CHANNEL_SERVICES"].split(".")
    (service,) = (
        document for document in documents if document["apiVersion"] == "v1" and document["metadata"]["name"] == name
    )
    assert service["metadata"]["namespace"] == namespace
    (port,) = service["spec"]["ports"]
    (template,) = (
        template
        for _, template in _templates(documents)
        if service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    )
    if overlay == "knative":
        assert port == {"name": "http", "port": 80, "targetPort": 8012}
        assert template["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] == "1"
    else:
        ports = {entry["name"]: entry["containerPort"] for entry in template["spec"]["containers"][0]["ports"]}
        assert (port["port"], ports[port["targetPort"]]) == (80, 8080)


def test_every_pod_reads_the_kafka_secret(tmp_path: Path) -> None:
    for overlay, components in WITH.items():
        user = write_kustomization(tmp_path / overlay, [OVERLAYS / overlay], [COMPONENTS / name for name in components])
        documents = render(user)
        folder = _settings(documents)["PENSTOCK_KAFKA_SECRET"]
        ours = [
            (name, template["spec"])
            for name, template in _templates(documents)
            if name != "kafka" and not name.endswith("-executor")  # of Spark, whose driver hands it on
        ]
        assert ours
        for name, spec in ours:
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}
            assert mounted[folder]["secret"] == {"secretName": "penstock-kafka"}, f"{overlay}: {name}"


def test_example_gives_each_pod_the_secrets_of_brokers(tmp_path: Path) -> None:
    """In folders of namespace and name, with keys that a Secret may have."""
    keys = {path.name for path in paths(Path())}
    example = MANIFESTS / "examples" / "broker-secrets"
    for overlay, components in WITH.items():
        added = [*(COMPONENTS / name for name in components), example]
        documents = render(write_kustomization(tmp_path / overlay, [OVERLAYS / overlay], added))
        settings = _settings(documents)
        root = settings["PENSTOCK_KAFKA_SECRETS"]
        workers = [document for document in documents if document["kind"] in ("Deployment", "Service")]
        ours = [(name, template["spec"]) for name, template in _templates(workers) if name != "kafka"]
        assert ours
        for name, spec in ours:
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}
            (source,) = mounted[root]["projected"]["sources"]
            items = [(item["key"], *item["path"].rpartition("/")[::2]) for item in source["secret"]["items"]]
            assert items, f"{overlay}: {name}"
            for key, reference, file in items:
                assert (is_reference(reference), key) == (True, file)
                assert key in keys


def test_dispatchers_and_nobody_else_read_the_own_token(tmp_path: Path) -> None:
    for overlay in WITH:
        documents = render(write_kustomization(tmp_path / overlay, [OVERLAYS / overlay], [COMPONENTS / "own-token"]))
        settings = _settings(documents)
        mounted: set[str] = set()
        for name, template in _templates(documents):
            secrets = [volume.get("secret", {}).get("secretName") for volume in template["spec"].get("volumes", ())]
            if "penstock-own-token" in secrets:
                mounted.add(name)
                mounts = [mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]]
                assert str(Path(settings["PENSTOCK_OWN_TOKEN"].removeprefix("file:")).parent) in mounts
        assert mounted == ({"penstock"} if overlay == "dev" else {"penstock-dispatcher"})
        assert settings["PENSTOCK_INGRESS_URL"]


def _pod(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """As the Deployment, the Job or Serving makes it, without what only Serving knows."""
    ours = {key: value for key, value in spec.items() if key not in ("containerConcurrency", "timeoutSeconds")}
    for container in ours["containers"]:
        container.setdefault(
            "image", "registry.example.com/penstock-spark"
        )  # which Spark adds, from elsewhere in its object
        for probe in (container.get("livenessProbe"), container.get("readinessProbe")):
            if probe and "httpGet" in probe:
                probe["httpGet"].setdefault("port", 8080)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": ours}


def test_pod_with_more_rights_is_refused(
    with_foreign_crds: KubeCluster, make_namespace: Callable[[], str], tmp_path: Path
) -> None:
    """So the namespace of the manifests enforces what the test before this one relies on."""
    namespace, admin = make_namespace(), with_foreign_crds.admin
    documents = render(write_kustomization(tmp_path / "user", [OVERLAYS / "plain"], namespace=namespace))
    for document in (document for document in documents if document["kind"] in _FIRST):
        admin.apply(document).must()
    name, template = next(_templates(documents))
    pod = _pod(namespace, name, template["spec"])
    del pod["spec"]["containers"][0]["securityContext"]["seccompProfile"]
    answer = admin.create(pod, dryRun="All")
    assert answer.status == 403
    assert "restricted" in answer.message


def test_field_that_does_not_exist_is_refused(with_foreign_crds: KubeCluster) -> None:
    service = _knative_services(render(OVERLAYS / "knative"))[0]
    service["metadata"]["namespace"] = "default"
    service["spec"]["template"]["spec"]["container_concurrency"] = 1
    answer = with_foreign_crds.admin.apply(service, dryRun="All")
    assert not answer.ok
    assert "container_concurrency" in answer.message


def _knative_services(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [document for document in documents if document["apiVersion"].startswith("serving.knative.dev/")]


def test_dispatcher_as_a_knative_service(with_foreign_crds: KubeCluster, tmp_path: Path) -> None:
    """As the comment in the overlay says: one component in place of the other."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    kustomization = tmp_path / "manifests" / "overlays" / "knative" / "kustomization.yaml"
    listed = "\n  - ../../components/dispatcher"
    assert kustomization.read_text().count(f"{listed} ") == 1
    kustomization.write_text(kustomization.read_text().replace(f"{listed} ", f"{listed}-service "))
    documents = render(kustomization.parent)
    services = _knative_services(documents)
    assert {service["metadata"]["name"] for service in services} == {"penstock-ingress", "penstock-dispatcher"}
    assert _names(documents, "Deployment") == {"penstock-controller"}
    for service in services:
        assert problems(service) == []
        in_default = {**service, "metadata": {**service["metadata"], "namespace": "default"}}
        with_foreign_crds.admin.apply(in_default, dryRun="All").must()


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_monitoring_and_nobody_else_reaches_the_admin_port(overlay: str) -> None:
    """It would listen on loopback."""
    documents = render(OVERLAYS / overlay)
    (settings,) = (
        document["data"] for document in documents if document["metadata"]["name"].startswith("penstock-settings")
    )
    assert settings["PENSTOCK_ADMIN_BIND"] == "0.0.0.0"
    rules = [
        rule for document in documents if document["kind"] == "NetworkPolicy" for rule in document["spec"]["ingress"]
    ]
    (rule,) = (item for item in rules if Settings().admin_port in [port["port"] for port in item["ports"]])
    namespaces = [sender["namespaceSelector"]["matchLabels"] for sender in rule["from"]]
    assert namespaces == [{"kubernetes.io/metadata.name": "monitoring"}]


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """As Kubernetes reads it, with the operators that the manifests use."""
    for expression in selector.get("matchExpressions", ()):
        value = labels.get(expression["key"])
        if not {"In": value in expression.get("values", ()), "Exists": value is not None}[expression["operator"]]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_only_ingress_is_open_to_everybody(overlay: str) -> None:
    documents = render(OVERLAYS / overlay)
    policies = [document["spec"] for document in documents if document["kind"] == "NetworkPolicy"]
    for name, template in _templates(documents):
        labels = template["metadata"]["labels"]
        ours = [policy for policy in policies if _selects(policy["podSelector"], labels)]
        assert ours or name == "kafka", name
        rules = [rule for our in ours for rule in our["ingress"] if "from" not in rule]
        is_open = {port["port"] for rule in rules for port in rule["ports"]}
        is_ingress = labels.get("app.kubernetes.io/component") in ("ingress", "all")
        assert is_open == ({8080} if is_ingress else set()), name


@pytest.mark.parametrize("overlay", sorted(WITH))
def test_everything_refers_to_what_is_there(overlay: str) -> None:
    documents = render(OVERLAYS / overlay)
    (settings,) = _names(documents, "ConfigMap")
    accounts = _names(documents, "ServiceAccount")
    ours = [(name, pod) for name, pod in _templates(documents) if name != "kafka"]
    for name, template in ours:
        (container,) = template["spec"]["containers"]
        # The name ends with a hash, so pods are replaced when the settings change.
        assert container["envFrom"][0]["configMapRef"]["name"] == settings, name
        assert template["spec"]["serviceAccountName"] in accounts
    pods = [template["metadata"]["labels"] for _, template in ours]
    for document in documents:
        selector = (
            document.get("spec", {}).get("selector") if document["kind"] in ("Service", "PodDisruptionBudget") else None
        )
        if selector and "kafka" not in selector.values():
            match_labels = selector.get("matchLabels", selector)
            assert [labels for labels in pods if match_labels.items() <= labels.items()], document["metadata"]["name"]


def test_spark_applications_have_the_image_and_the_settings_of_the_overlay(tmp_path: Path) -> None:
    """kustomize does not know these places by itself."""
    components = [COMPONENTS / "spark-operator-jobs"]
    image = {"name": "registry.example.com/penstock-spark", "newName": "registry.example/spark", "newTag": "7"}
    user = write_kustomization(tmp_path / "user", [OVERLAYS / "plain"], components, images=[image], namespace="other")
    documents = render(user)
    jobs = [document["spec"]["template"] for document in documents if document["kind"] == SPARK]
    (settings,) = [name for name in _names(documents, "ConfigMap") if name.startswith("penstock-settings-")]
    assert len(jobs) == 2
    for job in jobs:
        assert job["image"] == "registry.example/spark:7"
        (container,) = job["driver"]["template"]["spec"]["containers"]
        assert container["envFrom"][0]["configMapRef"]["name"] == settings
        assert job["driver"]["serviceAccount"] in _names(documents, "ServiceAccount")
    (binding,) = [
        document
        for document in documents
        if document["kind"] == "RoleBinding" and document["metadata"]["name"] == "penstock-spark"
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "penstock-spark", "namespace": "other"}]


def test_keda_has_the_number_of_dispatchers_alone(tmp_path: Path) -> None:
    documents = render(write_kustomization(tmp_path / "user", [OVERLAYS / "plain"], [COMPONENTS / "keda"]))
    (dispatcher,) = [
        document
        for document in documents
        if document["metadata"]["name"] == "penstock-dispatcher" and document["kind"] == "Deployment"
    ]
    assert "replicas" not in dispatcher["spec"]
    scaled = next(document for document in documents if document["kind"] == "ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == "penstock-dispatcher"
    (trigger,) = scaled["spec"]["triggers"]
    assert f" {trigger['metadata']['threshold']} * " in trigger["metadata"]["query"]


def test_examples_of_secrets_are_accepted_and_are_those_that_pods_read(with_foreign_crds: KubeCluster) -> None:
    examples = {
        "secret.yaml": "penstock-secrets",
        "kafka-secret.yaml": "penstock-kafka",
        "own-token.yaml": "penstock-own-token",
    }
    assert {file.name for file in (MANIFESTS / "examples").glob("*.yaml")} == examples.keys()
    for file, name in examples.items():
        (secret,) = yaml.safe_load_all((MANIFESTS / "examples" / file).read_text())
        in_default = {**secret, "metadata": {**secret["metadata"], "namespace": "default"}}
        with_foreign_crds.admin.apply(in_default, dryRun="All").must()
        assert secret["metadata"]["name"] == name
