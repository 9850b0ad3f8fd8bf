"""The jobs by the Spark operator: the same jobs as the CronJobs, in pods that are as restricted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.local.kafka.jar_sets import SPARK
from tests.support.kube.kustomize import COMPONENTS
from tests.support.kube.manifests import documents
from tests.support.processes import REPOSITORY


def _jobs(component: str, kind: str) -> dict[str, dict[str, Any]]:
    manifests = documents(COMPONENTS / component / "jobs.yaml")
    return {document["metadata"]["name"]: document["spec"] for document in manifests if document["kind"] == kind}


CRON_JOBS = _jobs("spark-jobs", "CronJob")
APPLICATIONS = _jobs("spark-operator-jobs", "ScheduledSparkApplication")


def test_jobs_are_the_same() -> None:
    assert CRON_JOBS.keys() == APPLICATIONS.keys()


@pytest.mark.parametrize("name", sorted(CRON_JOBS))
def test_driver_is_the_pod_of_the_cron_job(name: str) -> None:
    job, application = CRON_JOBS[name], APPLICATIONS[name]
    assert application["schedule"] == job["schedule"]
    assert application["concurrencyPolicy"] == job["concurrencyPolicy"]
    spec = job["jobTemplate"]["spec"]
    pod, driver = spec["template"]["spec"], application["template"]["driver"]["template"]["spec"]
    (container,) = pod["containers"]
    (of_driver,) = driver["containers"]
    assert application["template"]["arguments"] == container["args"]
    for key in ("env", "envFrom", "securityContext", "volumeMounts"):
        assert of_driver[key] == container[key], key
    for key in ("securityContext", "volumes", "enableServiceLinks"):
        assert driver[key] == pod[key], key
    assert driver["activeDeadlineSeconds"] == spec["activeDeadlineSeconds"]
    assert application["template"]["restartPolicy"]["onFailureRetries"] == spec["backoffLimit"]


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_executors_are_restricted_and_have_nothing_of_the_driver(name: str) -> None:
    template = APPLICATIONS[name]["template"]
    executor, driver = template["executor"]["template"]["spec"], template["driver"]["template"]["spec"]
    (container,) = executor["containers"]
    assert container["securityContext"] == driver["containers"][0]["securityContext"]
    assert executor["automountServiceAccountToken"] is False
    assert executor["enableServiceLinks"] is False
    assert executor["serviceAccountName"] == template["executor"]["serviceAccount"] == "penstock-worker"
    assert not container.keys() & {"env", "envFrom"}
    assert [volume["name"] for volume in executor["volumes"]] == ["data", "tmp"]


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_versions_and_paths_are_those_of_the_image(name: str) -> None:
    template = APPLICATIONS[name]["template"]
    jars = SPARK.manifest.read_text()
    assert f"spark-sql-kafka-0-10_2.13-{template['sparkVersion']}.jar" in jars
    image = (REPOSITORY / "images" / "spark" / "Containerfile").read_text()
    folder = "/opt/penstock/jars"
    assert f"COPY jars {folder}\n" in image
    assert {template["sparkConf"][f"spark.{role}.extraClassPath"] for role in ("driver", "executor")} == {f"{folder}/*"}
    file = template["mainApplicationFile"].removeprefix("local:///opt/penstock/lib/python3.11/site-packages/")
    assert (REPOSITORY / file).is_file()


def test_network_policy_lets_executors_in() -> None:
    (policy,) = yaml.safe_load_all((COMPONENTS / "spark-operator-jobs" / "network-policy.yaml").read_text())
    (expression,) = policy["spec"]["podSelector"]["matchExpressions"]
    template = next(iter(APPLICATIONS.values()))["template"]
    of_pods = [template[role]["template"]["metadata"]["labels"] for role in ("driver", "executor")]
    assert expression["values"] == [labels[expression["key"]] for labels in of_pods]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= of_pods[1].items()
