"""A network that fails under load: scenes of tests/chaos in their short forms.

The network to all brokers fails at once, so one broker is enough. The long forms have three.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.running import run_short
from tests.chaos.scenes import NETWORK, Scene
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.system


@pytest.mark.parametrize("scene", [scene for scene in NETWORK if scene.short is not None], ids=lambda scene: scene.name)
def test_nothing_is_lost_or_overtaken(scene: Scene, proxied: KafkaCluster, tmp_path: Path) -> None:
    run_short(scene, proxied, tmp_path)
