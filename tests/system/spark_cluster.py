"""Spark as real processes on loopback, from the jars of the wheel: a master and workers, or a Spark Connect server.

Each process dies with the test that started it. Listens on loopback only.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.local.child_process import die_with_parent
from app.local.kafka.ports import is_open
from tests.support.java_classes import QUICK_COMPILER, java_options
from tests.support.processes import free_port, wait_until

_LIMIT_S = 180.0  #: a JVM starts in two seconds, and in a minute on a busy machine
_CLASSES = java_options("spark")
#: For JVMs that live for seconds.
QUICK = {
    "JAVA_TOOL_OPTIONS": f"{QUICK_COMPILER} -XX:+UseSerialGC",
    "SPARK_SUBMIT_OPTS": _CLASSES,
    "SPARK_DAEMON_JAVA_OPTS": _CLASSES,
}
#: For sessions on the cluster: executors that fit on a small machine, and no 200 tasks for a few thousand rows.
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _CLASSES,
    "spark.sql.shuffle.partitions": "2",
}
_PACKAGE = "org.apache.spark.deploy"


def spark_home() -> Path:
    """The folder of the wheel."""
    import pyspark

    return Path(str(pyspark.__file__)).parent


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master with this many workers of one core each."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        master_log = folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(_process(f"{_PACKAGE}.master.Master", arguments, master_log))
        wait_until("the master listens", lambda: "New state: ALIVE" in master_log.read_text(), _LIMIT_S)
        for number in range(workers):
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m"]
            arguments += ["--work-dir", str(folder / f"work-{number}"), address]
            stack.enter_context(_process(f"{_PACKAGE}.worker.Worker", arguments, folder / f"worker-{number}.log"))

        def registered() -> bool:
            # By name: on a busy machine one may register twice.
            return len(set(re.findall(r"Registering worker (\S+)", master_log.read_text()))) >= workers

        wait_until("the workers are registered", registered, _LIMIT_S)
        yield address


@contextlib.contextmanager
def connect_server(log: Path, jars: Sequence[Path]) -> Iterator[str]:
    """The address of a Spark Connect server on two cores, started as its own script starts it."""
    port, server = free_port(), "org.apache.spark.sql.connect.service.SparkConnectServer"
    arguments = ["--class", server, "--master", "local[2]", "--jars", ",".join(map(str, jars))]
    for name, value in (
        ("spark.connect.grpc.binding.address", "127.0.0.1"),
        ("spark.connect.grpc.binding.port", port),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
    ):
        arguments += ["--conf", f"{name}={value}"]
    with _process("org.apache.spark.deploy.SparkSubmit", [*arguments, "spark-internal"], log, "700m"):
        wait_until("the server listens", lambda: is_open(port), _LIMIT_S)
        yield f"sc://127.0.0.1:{port}"


@contextlib.contextmanager
def _process(name: str, arguments: list[str], log: Path, memory: str = "256m") -> Iterator[None]:
    settings = spark_home() / "conf-of-tests"  # is not there: no file of this machine counts
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(settings),
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **QUICK,  # which executors inherit
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), name, *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, preexec_fn=die_with_parent(),
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
