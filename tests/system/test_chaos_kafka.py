"""Brokers that fail under load: scenes of tests/chaos in their short forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.running import run_short
from tests.chaos.scenes import KAFKA, Scene
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.system


@pytest.mark.parametrize("scene", [scene for scene in KAFKA if scene.short is not None], ids=lambda scene: scene.name)
def test_nothing_is_lost_or_overtaken(scene: Scene, cluster: KafkaCluster, tmp_path: Path) -> None:
    run_short(scene, cluster, tmp_path)
