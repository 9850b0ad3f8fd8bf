"""An API server that rejects requests, and whose watches repeat events or are cut: the controller ends up right."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.cluster.faulty_api import Faults, FaultyApi
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster, converges

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

#: What the API server does, and whether a controller can work meanwhile.
FAULTS: dict[str, tuple[Faults, bool]] = {
    "429 with Retry-After": (Faults(429, retry_after_s=2), False),
    "500": (Faults(500), False),
    "every second request is answered with 503": (Faults(503, share=0.5), True),
    "watches repeat all that they have said": (Faults(repeats=2), True),
    "watches end in the middle of their first event": (Faults(cut=True), True),
}
HITS = 5


def test_after_each_fault_the_controller_has_done_what_changed(
    kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
    with FaultyApi(kube) as api, penstock.worker("controller", api_port=api.port) as controller:
        penstock.channel("first")
        penstock.channel("new-0")
        penstock.wait("both are published", lambda: all(map(penstock.is_published, ("first", "new-0"))))
        gone = []
        for number, (what, (faults, works)) in enumerate(FAULTS.items(), 1):
            before = api.hits
            last, new = f"new-{number - 1}", f"new-{number}"
            gone.append(penstock.read("KafkaChannel", last)["status"]["annotations"]["penstock.dev/topic"])
            api.faults = faults
            penstock.channel(new)
            change = {"spec": {"numPartitions": number + 1}}
            penstock.kube.admin.merge(penstock.path("KafkaChannel", "first"), change).must()
            penstock.delete("KafkaChannel", last)
            penstock.wait(f"{what}: it is met", lambda before=before: api.hits - before >= HITS)  # type: ignore[misc]

            def done(last: str = last, new: str = new) -> bool:
                return penstock.is_published("first") and penstock.is_published(new) and not penstock.exists(last)

            if not works:
                assert not done()
                api.faults = Faults()
            converges(what, done)
            api.faults = Faults()
        seen = observe_topics(admin, [*gone, penstock.topic("first")])
        assert {name: observed_topic.partitions for name, observed_topic in seen.items()} == {
            penstock.topic("first"): len(FAULTS) + 1
        }
        assert controller.terminate() == 0, controller.tail()
