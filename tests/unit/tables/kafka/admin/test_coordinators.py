"""When a client for groups may be made, and whose settings may be replaced."""

from __future__ import annotations

from tables.kafka.admin.coordinators import Coordinators
from tables.kafka.connection.live_settings import LiveSettings


def test_it_is_made_and_its_settings_are_replaced_before_there_is_a_loop() -> None:
    kafka = LiveSettings()
    kafka.replace({"bootstrap.servers": "h:1"})
    kept = Coordinators(kafka, "test")
    assert len(kafka.called) == 1
    kafka.replace({"bootstrap.servers": "h:2"})
    del kept
    assert kafka.called == []
