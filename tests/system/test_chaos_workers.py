"""Full disks, workers that come and go, resources that change, all under load: scenes of tests/chaos in short forms.

Kafka is whole in all of them but one, so one broker is enough.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.running import run_short
from tests.chaos.scenes import TRIGGERS, WORKERS, Scene
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "scene", [scene for scene in (*WORKERS, *TRIGGERS) if scene.short is not None], ids=lambda scene: scene.name
)
def test_nothing_is_lost_or_overtaken(scene: Scene, proxied: KafkaCluster, tmp_path: Path) -> None:
    run_short(scene, proxied, tmp_path)
