"""The controller while the API server is away, when its watches are too old, and when its leader was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.chaos.api_server import away
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster
from tests.support.processes import Worker

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


PAST_THE_LEASE_S = 15.0


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    """A cluster that these tests may break."""
    with KubeCluster(tmp_path_factory.mktemp("fragile")) as cluster:
        yield cluster


@pytest.fixture
def penstock(fragile: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> PenstockInCluster:
    return PenstockInCluster(fragile, kafka.bootstrap, tmp_path)


def holder(penstock: PenstockInCluster) -> str:
    """The name of the worker that has the Lease; "" = none."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{penstock.namespace}/leases/{penstock.name}-controller"
    answer = penstock.kube.admin.get(path)
    text = str(answer.body["spec"].get("holderIdentity") or "") if answer.ok else ""
    return text.rpartition("_")[0]


def test_api_server_is_away_under_load(fragile: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """For longer than a Lease is held; `python -m tests.chaos.api_server` does it for two minutes. What the watches
    know is too old to go on from, and what has changed meanwhile is not in any stream."""
    figures = away(fragile, kafka.bootstrap, tmp_path, PAST_THE_LEASE_S)
    assert figures["delivered_meanwhile"] > 0


def test_leader_that_was_stopped_does_not_undo_what_the_next_one_did(penstock: PenstockInCluster) -> None:
    first = penstock.worker("controller", {"PENSTOCK_WORKER_ID": "first"})
    with first:
        penstock.wait("the first one leads", lambda: holder(penstock) == "first")
        penstock.channel("orders", 1)
        published = ("True", "")
        penstock.wait(
            "the channel is published",
            lambda: penstock.condition("KafkaChannel", "orders", "ContractPublished") == published,
        )
        with penstock.worker("controller", {"PENSTOCK_WORKER_ID": "second"}) as second:
            first.pause()
            penstock.wait("the second one leads", lambda: holder(penstock) == "second")
            change = {"spec": {"numPartitions": 3}, "metadata": {"annotations": {"penstock.dev/hosts": "orders.test"}}}
            penstock.kube.admin.merge(penstock.path("KafkaChannel", "orders"), change).must()
            penstock.wait(
                "the change is published",
                lambda: penstock.condition("KafkaChannel", "orders", "ContractPublished") == published,
            )
            penstock.channel("more")
            penstock.wait(
                "a new one is published",
                lambda: penstock.condition("KafkaChannel", "more", "ContractPublished") == published,
            )
            before = _spoken(penstock)
            first.resume()
            penstock.wait("the first one knows", lambda: _said(first, "controller is no longer the leader"))
            penstock.delete("KafkaChannel", "more")
            penstock.wait_gone("KafkaChannel", "more")
            assert _spoken(penstock) == before
            assert holder(penstock) == "second"
            assert second.terminate() == 0, second.tail()
        penstock.wait("the first one leads again", lambda: holder(penstock) == "first")
        assert first.terminate() == 0, first.tail()


def _spoken(penstock: PenstockInCluster) -> object:
    channel = penstock.read("KafkaChannel", "orders")
    return channel["status"], channel["metadata"]["generation"], channel["metadata"]["resourceVersion"]


def _said(worker: Worker, text: str) -> bool:
    return text in worker.log.read_text(errors="replace") or text in worker.output()
