"""The images, each built once for the session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from app.operations.spark_jars import JARS_ROOT
from tests.image.containers import Image, missing
from tests.support.processes import REPOSITORY


@pytest.fixture(scope="session")
def worker_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build worker` builds."""
    yield from _built("worker", tmp_path_factory)


@pytest.fixture(scope="session")
def spark_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build spark` builds, on a base that has Java already, beside the jars of a former version."""
    former = REPOSITORY / JARS_ROOT / "libs-000000000000"
    former.mkdir(parents=True, exist_ok=True)
    try:
        (former / "former.jar").touch()
        yield from _built("spark", tmp_path_factory, "openjdk-17-jre-headless")
    finally:
        shutil.rmtree(former)


def _built(kind: str, folders: pytest.TempPathFactory, *packages: str) -> Iterator[Image]:
    lacking = missing()
    assert not lacking, f"These tests need {', '.join(lacking)}; apt-get install has the programs."
    image = Image(kind, folders.mktemp(kind), packages)
    yield image
    image.remove()
