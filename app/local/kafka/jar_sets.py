"""The sets of jars that `app/local/kafka/jars` can download, with their names in messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.local.packaged import package_folder

_KAFKA_FOLDER = package_folder("app.local.kafka") / "distribution"
LOG_CONFIG = _KAFKA_FOLDER / "log4j2.properties"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that belong together: purpose, files and size."""

    owner: str  #: in sentences: "the embedded Kafka"
    title: str  #: in progress lines: "Kafka's jars"
    folder: Path  #: of pom.xml and jars.sha256
    megabytes: int
    instead: str = ""  #: a hint how to do without them

    @property
    def pom(self) -> Path:
        """The pom with exact versions."""
        return self.folder / "pom.xml"

    @property
    def manifest(self) -> Path:
        """The file with their checksums."""
        return self.folder / "jars.sha256"


KAFKA = JarSet(
    "the embedded Kafka",
    "Kafka's jars",
    _KAFKA_FOLDER,
    45,
    "Or use a Kafka of your own: penstock up --kafka HOST:PORT.",
)

SPARK = JarSet(
    "Spark's Kafka connector",
    "Spark's Kafka connector",
    package_folder("analytics.spark"),
    10,
    "Or name a folder that has them: PENSTOCK_SPARK_JARS.",
)
