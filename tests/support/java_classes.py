"""Archives of the classes that the JVMs of Kafka and Spark load, which save 40 % of the CPU of a start.

    python -m tests.support.java_classes   writes those that are missing

A JVM that finds an archive of other jars loads its classes as always, and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from app.local.kafka.jars import libs_folder
from tests.support.processes import REPOSITORY

_ARCHIVES = REPOSITORY / ".penstock" / "classes"
_KAFKA_JARS = REPOSITORY / ".penstock" / "kafka"
#: Of a JVM that lives for minutes, half of the CPU is the second compiler's.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_SILENT = "-Xlog:cds*=off"
_DUMP_LIMIT_S = 600.0

_KAFKA = """
import sys
from pathlib import Path
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from app.local.kafka import EmbeddedKafka
from tests.support.processes import free_port
with EmbeddedKafka(Path(sys.argv[1]), port=free_port(), heap="384m", jars_root=Path(sys.argv[2])) as kafka:
    client = {"bootstrap.servers": kafka.bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(180)
    producer = Producer({**client, "enable.idempotence": True})
    producer.produce("t", b"1")
    producer.flush(180)
    consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    consumer.consume(1, 180)
    consumer.commit(asynchronous=False)
    consumer.close()
"""
_SPARK = """
import sys
from analytics.spark.session import SparkOptions, spark_session
from app.operations.spark_jars import jar_places
with spark_session(SparkOptions("classes", jars=jar_places(), small=True)) as spark:
    numbers = spark.range(1000).selectExpr("id % 7 as key", "id as number")
    numbers.groupBy("key").count().write.parquet(sys.argv[1] + "/rows")
    spark.read.parquet(sys.argv[1] + "/rows").join(numbers, "key").collect()
"""


def archive(name: str) -> Path:
    """Where the archive of `kafka` or `spark` is, for the jars and the Java that are here now."""
    spark = find_spec("pyspark") if name == "spark" else None  # importing it takes a tenth of a second
    jars = (spark.origin, version("pyspark")) if spark else libs_folder(_KAFKA_JARS)
    java = Path(shutil.which("java") or "java").resolve()
    return _ARCHIVES / f"{name}-{hashlib.sha256(repr((jars, java)).encode()).hexdigest()[:12]}.jsa"


def java_options(name: str) -> str:
    """For the JVMs of `kafka` or `spark`: they use the archive, if it is there."""
    path = archive(name)
    return f"-XX:SharedArchiveFile={path} {_SILENT}" if path.exists() else ""


def _write(name: str, program: str, variable: str) -> None:
    target = archive(name)
    if target.exists():
        return
    _ARCHIVES.mkdir(parents=True, exist_ok=True)
    for former in _ARCHIVES.glob(f"{name}-*"):
        former.unlink()
    new = target.with_suffix(f".{os.getpid()}")  # beside it, so that nobody finds a part of it
    with tempfile.TemporaryDirectory() as folder:
        options = f"{QUICK_COMPILER} -XX:ArchiveClassesAtExit={new} {_SILENT}"
        command = [sys.executable, "-c", program, folder, str(_KAFKA_JARS)]
        # With pipes, because it is over only when the JVM has closed them too: Spark's writes when Python has ended.
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_DUMP_LIMIT_S, cwd=REPOSITORY,
            env={**os.environ, variable: options},
        )  # fmt: skip
    if done.returncode != 0 or not new.exists():
        raise SystemExit(f"There is no archive of the classes of {name}: {done.stdout}{done.stderr}")
    new.replace(target)


if __name__ == "__main__":
    _write("kafka", _KAFKA, "JAVA_TOOL_OPTIONS")
    _write("spark", _SPARK, "SPARK_SUBMIT_OPTS")
