"""100 Triggers come and go under load, and nothing of them stays; `make chaos` does it with 200 for three minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.chaos.triggers import come_and_go

pytestmark = pytest.mark.system

TRIGGERS = 100
RATE = 30  #: events in a second, which leaves room for other tests


def test_nothing_stays_of_triggers_that_went(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """No thread, socket, task, consumer group or series of metrics; who stayed got each event once."""
    figures = come_and_go(own_kafka.bootstrap, tmp_path, TRIGGERS, 0.0, RATE)
    print(figures)
    assert figures["triggers"] >= TRIGGERS
    assert figures["events"] > 0
    assert figures["deliveries"] > 0
