"""One API server for the session. Each test has namespaces of its own in it, or a cluster of its own to break."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from app.operations.manifests import crd_file
from knative.resources.kinds import OURS
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import install
from tests.support.kube.penstock import PenstockInCluster
from tests.support.prepared import preload

preload("controller.cluster")  # for resources of a cluster: takes a second


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    """A Kubernetes API server; nobody stops or pauses it."""
    with KubeCluster(tmp_path_factory.mktemp("kube")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def with_crds(kube: KubeCluster) -> KubeCluster:
    """The same with the CRDs of the repository, as they are committed."""
    install(kube, *(crd_file(kind) for kind in OURS))
    return kube


@pytest.fixture
def make_namespace(kube: KubeCluster) -> Callable[[], str]:
    """`make_namespace()` creates a namespace with a new name, and gives the name."""

    def make() -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        kube.create_namespace(name)
        return name

    return make


@pytest.fixture
def penstock(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> PenstockInCluster:
    """An installation in a namespace of its own, with events in the shared Kafka."""
    return PenstockInCluster(kube, kafka.bootstrap, tmp_path)
