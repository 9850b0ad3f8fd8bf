"""Jars are pinned, recorded with their hashes and checked."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from app.local.kafka import jars
from app.local.kafka.jar_sets import KAFKA, SPARK, JarSet
from knative.errors import PenstockError
from tests.support.processes import REPOSITORY


@pytest.mark.parametrize("jar_set", [KAFKA, SPARK], ids=lambda jar_set: jar_set.owner)
def test_every_version_is_pinned_and_every_jar_recorded(jar_set: JarSet) -> None:
    """The list of checksums belongs to the pom: the jars it names are in it."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(jar_set.pom).getroot()
    properties = {
        element.tag.rpartition("}")[2]: element.text or "" for element in pom.findall("m:properties/*", space)
    }
    recorded = jars.read_manifest(jar_set.manifest.read_text())
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in recorded.values())
    for element in pom.findall(".//m:dependency", space):
        written = element.findtext("m:version", "", space)
        version = properties.get(written.strip("${}"), written)
        assert re.fullmatch(r"\d+(\.\d+)+", version)
        group, artifact = (element.findtext(f"m:{part}", "", space) for part in ("groupId", "artifactId"))
        assert f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar" in recorded
    assert re.fullmatch(r"\d+(\.\d+)+", pom.findtext(".//m:plugin/m:version", "", space))


def test_kafka_has_a_place_to_log_to() -> None:
    assert any(name.startswith("log4j-slf4j-impl") for name in jars.jar_names(KAFKA))


def test_sparks_jars_are_those_of_the_wheel() -> None:
    version = re.search(r"^pyspark==(\S+)", (REPOSITORY / "requirements-all.lock").read_text(), re.MULTILINE)
    assert version is not None
    assert f"spark-sql-kafka-0-10_2.13-{version[1]}.jar" in jars.jar_names(SPARK)


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="cannot be stored under"):
        jars.ensure_jars(tmp_path / "file" / "kafka")
