"""The images, each built once for the session."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator

import pytest

from app.operations.spark_jars import JARS_ROOT
from tests.image.containers import Image, missing
from tests.support.processes import REPOSITORY

MORE_JAR = "more.jar"


@pytest.fixture(scope="session")
def worker_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build worker` builds."""
    yield from _built("worker", tmp_path_factory)


@pytest.fixture(scope="session")
def spark_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build spark` builds with a jar of the user, MORE_JAR. There are jars of a former version too, and
    the base has Java already."""
    former = REPOSITORY / JARS_ROOT / "libs-000000000000"
    former.mkdir(parents=True, exist_ok=True)
    more = tmp_path_factory.mktemp("jars")
    with zipfile.ZipFile(more / MORE_JAR, "w") as jar:
        jar.writestr("more.txt", "")
    try:
        (former / "former.jar").touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JARS", str(more))
            yield from _built("spark", tmp_path_factory, "openjdk-17-jre-headless")
    finally:
        shutil.rmtree(former)


def _built(kind: str, folders: pytest.TempPathFactory, *packages: str) -> Iterator[Image]:
    lacking = missing()
    assert not lacking, f"These tests need {', '.join(lacking)}; apt-get install has the programs."
    image = Image(kind, folders.mktemp(kind), packages)
    yield image
    image.remove()
