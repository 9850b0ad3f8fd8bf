"""The scenes of tests/chaos in their short forms: three brokers, real workers, one fault each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.disks import mountable
from tests.chaos.running import run
from tests.chaos.scenes import SCENES, Scene
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.system


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene.short is not None], ids=lambda scene: scene.name)
def test_nothing_is_lost_or_overtaken(scene: Scene, cluster: KafkaCluster, tmp_path: Path) -> None:
    if scene.disk and (why := mountable()):
        pytest.skip(f"NOT RUN HERE: {why}")
    outcome = run(scene, cluster, tmp_path, short=True)
    print(outcome)
    assert outcome.broken == ()
