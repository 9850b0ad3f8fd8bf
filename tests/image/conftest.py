"""The images, each built once for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.image import Image, missing


@pytest.fixture(scope="session")
def worker_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build worker` builds."""
    yield from _built("worker", tmp_path_factory)


@pytest.fixture(scope="session")
def spark_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What `images/build spark` builds, on a base that has Java already."""
    yield from _built("spark", tmp_path_factory, "openjdk-17-jre-headless")


def _built(kind: str, folders: pytest.TempPathFactory, *packages: str) -> Iterator[Image]:
    lacking = missing()
    assert not lacking, f"These tests need {', '.join(lacking)}; apt-get install has the programs."
    image = Image(kind, folders.mktemp(kind), packages)
    yield image
    image.remove()
