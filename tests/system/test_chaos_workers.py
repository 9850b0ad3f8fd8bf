"""Full disks, workers that come and go, resources that change, all under load: scenes of tests/chaos in short forms.

Kafka is whole in all of them but one, so one broker is enough: three take as much CPU as all else together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.running import run_short
from tests.chaos.scenes import TRIGGERS, WORKERS, Scene
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("single"), brokers=1) as kafka:
        yield kafka


@pytest.mark.parametrize(
    "scene", [one for one in (*WORKERS, *TRIGGERS) if one.short is not None], ids=lambda scene: scene.name
)
def test_nothing_is_lost_or_overtaken(scene: Scene, single: KafkaCluster, tmp_path: Path) -> None:
    run_short(scene, single, tmp_path)
