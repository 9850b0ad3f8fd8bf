"""One API server for the session. Each test has namespaces of its own in it, or a cluster of its own to break."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.kube.cluster import KubeCluster


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    """A Kubernetes API server without our CRDs; nobody stops or pauses it."""
    with KubeCluster(tmp_path_factory.mktemp("kube")) as cluster:
        yield cluster


@pytest.fixture
def make_namespace(kube: KubeCluster) -> Callable[[], str]:
    """`make_namespace()` creates a namespace with a new name, and gives the name."""

    def make() -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        kube.create_namespace(name)
        return name

    return make
