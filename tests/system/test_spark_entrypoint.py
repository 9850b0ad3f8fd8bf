"""The entry point of the image of the jobs, as Spark on Kubernetes calls it: a driver, and an executor for it.

A stand-alone master without workers takes the place of the cluster: it starts no executors, so the job ends only with
the one that the entry point starts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.local.kafka import EmbeddedKafka
from app.local.kafka.ports import is_open
from app.operations.spark_jars import jar_places
from tests.support.installation import Installation
from tests.support.kube.kustomize import COMPONENTS
from tests.support.processes import REPOSITORY, Child, free_port, wait_until
from tests.system.spark_cluster import QUICK, cluster

pytestmark = pytest.mark.system

LIMIT_S = 600.0
EVENTS = 200
ENTRYPOINT = str(REPOSITORY / "images" / "spark" / "entrypoint")
#: Some of those that Spark gives to all its executors; Arrow does not start without the first one.
_JAVA = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dtest.words=two words",
)
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def _application() -> dict[str, Any]:
    documents = yaml.safe_load_all((COMPONENTS / "spark-operator-jobs" / "jobs.yaml").read_text())
    application = next(document for document in documents if document["metadata"]["name"] == "penstock-traffic")
    template: dict[str, Any] = application["spec"]["template"]
    return template


def _driver(folder: Path, master: str, port: int, installation: Installation, jars: Path) -> Child:
    """As Spark starts the pod of a driver: all settings in a file."""
    application = _application()
    conf = {name: value.replace("/opt/penstock/jars", str(jars)) for name, value in application["sparkConf"].items()}
    conf |= {"spark.master": master, "spark.driver.port": str(port), "spark.driver.host": "127.0.0.1"}
    properties = folder / "spark.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    file = application["mainApplicationFile"].replace("/opt/penstock/lib/python3.11/site-packages", str(REPOSITORY))
    arguments = ["--properties-file", str(properties), "--class", "org.apache.spark.deploy.PythonRunner", file]
    env = {
        **QUICK,
        "PATH": PATH,
        "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
        "PENSTOCK_KAFKA": installation.bootstrap,
        "PENSTOCK_INSTANCE": installation.name,
        "PENSTOCK_TRAFFIC_DIR": str(folder / "traffic"),
    }
    command = [ENTRYPOINT, "driver", *arguments, *application["arguments"], "-o", "json"]
    return Child("driver", command, folder, env)


def _executor(folder: Path, port: int, jars: Path) -> Child:
    """As Spark starts the pod of an executor: everything is a variable."""
    env = {
        **QUICK,
        "PATH": PATH,
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{port}",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "executor-1",
        "SPARK_CLASSPATH": f"{jars}/*",
        **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(_JAVA)},
    }
    return Child("executor", [ENTRYPOINT, "executor"], folder, env)


def test_driver_and_an_executor_count_events(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    (jars,) = jar_places()
    installation = Installation(kafka.bootstrap, tmp_path / "worker", partitions=2)
    installation.store(EVENTS, LIMIT_S)
    port = free_port()
    with cluster(tmp_path, workers=0) as master, _driver(tmp_path, master, port, installation, jars) as driver:
        wait_until("the driver listens", lambda: is_open(port) or not driver.running, LIMIT_S)
        with _executor(tmp_path, port, jars) as executor:
            assert driver.wait(LIMIT_S) == 0, driver.tail()
            assert executor.wait(LIMIT_S) == 0, executor.tail()
    rows = {row["kind"]: row["events"] for row in json.loads(driver.output())["rows"]}
    assert rows == {"stored": EVENTS, "accepted": EVENTS}


def test_everything_else_is_a_command_of_penstock(tmp_path: Path) -> None:
    with Child("penstock", [ENTRYPOINT, "job", "--help"], tmp_path, {"PATH": PATH}) as command:
        assert command.wait(LIMIT_S) == 0, command.tail()
        assert "traffic" in command.output()
