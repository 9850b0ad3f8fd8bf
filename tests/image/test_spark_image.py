"""The image of the jobs: a job counts real events, with the user, the memory and the volume of the CronJob."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from app.local.kafka import EmbeddedKafka
from app.local.kafka.jar_sets import SPARK
from app.local.kafka.jars import jar_names
from tests.image.conftest import MORE_JAR
from tests.image.containers import MIB, Container, Image
from tests.support.installation import Installation
from tests.support.kube.kustomize import COMPONENTS
from tests.support.processes import REPOSITORY

LIMIT_S = 300.0
EVENTS = 500


def _cron_job(name: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((COMPONENTS / "spark-jobs" / "jobs.yaml").read_text())
    cron_job = next(document for document in documents if document["metadata"]["name"] == name)
    pod: dict[str, Any] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pod


def test_jars_are_those_of_this_version_and_of_the_user(spark_image: Image) -> None:
    jars = {path.name for path in (spark_image.rootfs / "opt/penstock/jars").iterdir()}
    assert jars == {*jar_names(SPARK), MORE_JAR}
    site = next((spark_image.rootfs / "opt" / "penstock" / "lib").glob("python3.*/site-packages"))
    assert (site / "graphframes").is_dir()
    assert not (site / "nose").exists()
    modules = {path.name for path in (REPOSITORY / "examples" / "census").glob("*.py")}
    census = spark_image.rootfs / "opt" / "penstock" / "share" / "examples" / "census"
    assert {path.name for path in census.glob("*.py")} == modules


def test_traffic_job_counts_events_as_its_cron_job_runs_it(
    spark_image: Image, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    installation = Installation(kafka.bootstrap, tmp_path / "worker", partitions=2)
    installation.store(EVENTS, LIMIT_S)
    pod = _cron_job("penstock-traffic")
    (container,) = pod["containers"]
    data = tmp_path / "data"
    data.mkdir()
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    env |= {"PENSTOCK_KAFKA": kafka.bootstrap, "PENSTOCK_INSTANCE": installation.name}
    with Container(
        spark_image,
        tmp_path,
        [*container["args"], "-o", "json"],
        env,
        volumes={"/data": data},
        user=pod["securityContext"]["runAsUser"],
        memory_bytes=int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * MIB,
    ) as job:
        assert job.wait(LIMIT_S) == 0, job.tail()
    rows = {row["kind"]: row["events"] for row in json.loads(job.output())["rows"]}
    assert rows == {"stored": EVENTS, "accepted": EVENTS}
    assert list((data / "traffic").rglob("*.parquet"))
