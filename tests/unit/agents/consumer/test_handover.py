"""When partitions may be opened of which others may know more."""

from __future__ import annotations

from agents.consumer.handover import HANDOVER_S, Handovers


def test_each_waits_from_its_own_assignment_whoever_asks() -> None:
    handovers = Handovers()
    handovers.begin([0, 1], 100.0)
    handovers.begin([2], 101.0)
    until = {0: 100.0 + HANDOVER_S, 1: 100.0 + HANDOVER_S, 2: 101.0 + HANDOVER_S}
    assert handovers.waiting([0, 1, 2, 3], 101.0) == until
    assert handovers.waiting([1, 3], 102.0) == {1: until[1]}
    assert handovers.waiting([0, 1, 2], until[0]) == {2: until[2]}
    assert handovers.waiting([0, 1, 2], until[2]) == {}
