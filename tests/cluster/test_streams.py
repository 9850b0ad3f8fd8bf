"""The network between controller and API server breaks in several ways; after each, it knows what has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster, converges
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

UNREADABLE = "the API server cannot be read"
NO_LEASE = "this controller no longer holds the Lease"

#: What happens to the network while objects change, and what the log says before it ends.
FAULTS: dict[str, tuple[Callable[[TcpProxy], None], tuple[str, ...]]] = {
    "connections are reset": (lambda proxy: proxy.reset(), ()),
    "no connections": (lambda proxy: proxy.refuse(), (UNREADABLE, NO_LEASE)),
    "half open, no answer comes": (lambda proxy: proxy.mute(), (UNREADABLE, NO_LEASE)),
    "half open, nothing arrives": (lambda proxy: proxy.blackhole(), (UNREADABLE, NO_LEASE)),
    "five seconds of delay": (lambda proxy: proxy.delay(5.0), (NO_LEASE,)),
}


def test_after_each_fault_the_controller_knows_what_changed(
    kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    with TcpProxy(kube.port) as proxy, penstock.worker("controller", api_port=proxy.port) as controller:

        def said(text: str) -> int:
            return int(controller.log.read_text(errors="replace").count(text))

        penstock.channel("first")
        penstock.channel("new-0")
        penstock.wait("both are published", lambda: all(map(penstock.is_published, ("first", "new-0"))))
        for number, (what, (fault, texts)) in enumerate(FAULTS.items(), 1):
            before = [said(text) for text in texts]
            fault(proxy)
            penstock.channel(f"new-{number}")
            change = {"spec": {"numPartitions": number + 1}}
            penstock.kube.admin.merge(penstock.path("KafkaChannel", "first"), change).must()
            penstock.delete("KafkaChannel", f"new-{number - 1}")
            for text, count in zip(texts, before, strict=True):
                penstock.wait(f"{what}: {text!r}", lambda text=text, count=count: said(text) > count)  # type: ignore[misc]
            proxy.forward()
            new, last = f"new-{number}", f"new-{number - 1}"

            def done(new: str = new, last: str = last) -> bool:
                return all(map(penstock.is_published, ("first", new))) and not penstock.exists(last)

            converges(what, done)
        assert controller.terminate() == 0, controller.tail()
