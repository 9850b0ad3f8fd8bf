"""The pods of the manifests: that they fit Pod Security, and what they say fits the product."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from app.settings.fields import PREFIX, Settings
from app.worker import lifecycle
from tests.support.kube.kustomize import COMPONENTS, MANIFESTS, OVERLAYS
from tests.support.kube.manifests import documents
from tests.support.processes import REPOSITORY

Pod = tuple[str, str, dict[str, Any]]
#: Time for the container to end after the worker has given up, and for the first check of Kafka.
_MARGIN_S = 5
#: How long the preStop hook that Knative Serving adds to a container waits for its queue-proxy.
_SERVING_SLEEP_S = 30


def _pods() -> Iterator[Pod]:
    """Where each pod is, the version of what makes it, and its template."""
    for file in sorted([*COMPONENTS.rglob("*.yaml"), *OVERLAYS.rglob("*.yaml")]):
        for document in (document for document in documents(file) if isinstance(document, dict)):  # others are patches
            spec = document.get("spec") or {}
            if "jobTemplate" in spec:
                spec = spec["jobTemplate"]["spec"]
            if "template" in spec and document["kind"] != "ScheduledSparkApplication":
                where = f"{file.relative_to(MANIFESTS)} {document['kind']} {document['metadata']['name']}"
                yield where, document["apiVersion"], spec["template"]


def _settings(variables: dict[str, str]) -> Settings:
    """Raises if one of them is not a setting, or its value is not valid."""
    return Settings(**{name.removeprefix(PREFIX).lower(): value for name, value in variables.items()})


PODS = list(_pods())
OURS = [pod for pod in PODS if "kafka" not in pod[0]]
WORKERS = [pod for pod in OURS if "CronJob" not in pod[0]]


def test_pod_is_restricted(subtests: pytest.Subtests) -> None:
    for where, _, template in PODS:
        with subtests.test(where):
            for container in template["spec"]["containers"]:
                security = container["securityContext"]
                assert security["runAsNonRoot"] is True
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert security["seccompProfile"] == {"type": "RuntimeDefault"}
                assert {"memory"} <= container["resources"]["limits"].keys()
            # Otherwise a Service beside the pod becomes variables that look like settings.
            assert template["spec"]["enableServiceLinks"] is False


def test_pod_writes_to_the_temporary_folder_and_to_claims_only(subtests: pytest.Subtests) -> None:
    for where, _, template in OURS:
        with subtests.test(where):
            (container,) = template["spec"]["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
            for mount in container["volumeMounts"]:
                kind = "emptyDir" if mount["mountPath"] == "/tmp" else "persistentVolumeClaim"
                assert kind in volumes[mount["name"]]


def test_worker_runs_as_any_user(subtests: pytest.Subtests) -> None:
    for where, _, template in WORKERS:
        with subtests.test(where):
            spec = template["spec"]
            assert "securityContext" not in spec
            assert not spec["containers"][0]["securityContext"].keys() & {"runAsUser", "runAsGroup"}


def test_drain_fits_into_the_grace_period(subtests: pytest.Subtests) -> None:
    for where, api, template in WORKERS:
        with subtests.test(where):
            spec = template["spec"]
            (container,) = spec["containers"]
            if "serving" in api:  # the time limit of a request is the grace period
                grace_s, sleep_s = spec["timeoutSeconds"], _SERVING_SLEEP_S
            else:
                grace_s = spec["terminationGracePeriodSeconds"]
                sleep_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            assert grace_s >= sleep_s + Settings().drain_s + lifecycle._STOP_S + _MARGIN_S


def test_probes_leave_time_for_kafka_at_start(subtests: pytest.Subtests) -> None:
    for where, api, template in WORKERS:
        with subtests.test(where):
            (container,) = template["spec"]["containers"]
            if "serving" in api:
                limit_s = container["livenessProbe"]["initialDelaySeconds"]
            else:
                probe = container["startupProbe"]
                limit_s = probe["periodSeconds"] * probe["failureThreshold"]
            assert limit_s > Settings().kafka_wait_s + _MARGIN_S
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_ports_are_those_of_the_settings(subtests: pytest.Subtests) -> None:
    for where, api, template in WORKERS:
        with subtests.test(where):
            (container,) = template["spec"]["containers"]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            admin = {} if "serving" in api else {"admin": Settings().admin_port}
            assert ports == {"http1": Settings().http_port, **admin}


def test_variables_are_settings_with_valid_values(subtests: pytest.Subtests) -> None:
    for where, _, template in OURS:
        with subtests.test(where):
            (container,) = template["spec"]["containers"]
            variables = {variable["name"]: variable["value"] for variable in container["env"]}
            _settings(variables)
            if "PENSTOCK_ROLE" in variables:
                assert template["metadata"]["labels"]["app.kubernetes.io/component"] == variables["PENSTOCK_ROLE"]
            sources = [source.get("configMapRef", source.get("secretRef"))["name"] for source in container["envFrom"]]
            assert sources == ["penstock-settings", "penstock-secrets"]


def test_only_the_controller_gets_a_token(subtests: pytest.Subtests) -> None:
    for where, _, template in PODS:
        with subtests.test(where):
            spec = template["spec"]
            (container,) = spec["containers"]
            reads = "PENSTOCK_RESOURCES" in [variable["name"] for variable in container["env"]]
            items = documents(MANIFESTS / "rbac" / "service-accounts.yaml")
            accounts = {
                document["metadata"]["name"]: document.get("automountServiceAccountToken", True) for document in items
            }
            account = accounts[spec["serviceAccountName"]] if "serviceAccountName" in spec else True
            assert spec.get("automountServiceAccountToken", account) is reads


def test_only_the_controller_has_its_account(subtests: pytest.Subtests) -> None:
    for where, _, template in OURS:
        with subtests.test(where):
            (container,) = template["spec"]["containers"]
            reads = "PENSTOCK_RESOURCES" in [variable["name"] for variable in container["env"]]
            assert template["spec"]["serviceAccountName"] == ("penstock-controller" if reads else "penstock-worker")


def test_overlays_set_valid_settings_and_the_version(subtests: pytest.Subtests) -> None:
    for overlay in sorted(OVERLAYS.iterdir()):
        with subtests.test(overlay.name):
            kustomization = yaml.safe_load((overlay / "kustomization.yaml").read_text())
            (generator,) = kustomization["configMapGenerator"]
            pairs = dict(literal.split("=", 1) for literal in generator["literals"])
            _settings(pairs)
            assert {"PENSTOCK_KAFKA", "PENSTOCK_INGRESS_URL"} <= pairs.keys()
            version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
            tags = {image["name"]: image["newTag"] for image in kustomization["images"]}
            pom = (REPOSITORY / "app/local/kafka/distribution/pom.xml").read_text()
            kafka = re.search(r"<kafka.version>(.*)</kafka.version>", pom)
            assert kafka is not None
            assert tags.pop("apache/kafka", kafka[1]) == kafka[1]
            assert set(tags.values()) == {version}


def test_image_comes_first_and_has_a_registry(subtests: pytest.Subtests) -> None:
    """A name without one would be looked for in a public registry, where anybody may have put it."""
    for overlay in sorted(OVERLAYS.iterdir()):
        with subtests.test(overlay.name):
            kustomization = yaml.safe_load((overlay / "kustomization.yaml").read_text())
            assert list(kustomization)[:3] == ["apiVersion", "kind", "images"]
            named = {entry["name"] for entry in kustomization["images"]}
            used = {
                image
                for file in overlay.parent.parent.rglob("*.yaml")
                for image in re.findall(r"^ *image: (.*)$", file.read_text(), re.MULTILINE)
            }
            ours = {image for image in used if "penstock" in image}
            assert ours == {"registry.example.com/penstock", "registry.example.com/penstock-spark"}
            assert named <= used
            assert "registry.example.com/penstock" in named
