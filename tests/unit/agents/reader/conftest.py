"""For tests of the fan-out that have no threads, and do not depend on how fast the machine is."""

from __future__ import annotations

import math

import pytest

from agents.reader import ranges, slices
from agents.reader.catch_up import CatchUp
from agents.reader.topic_reader import TopicReader


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicReader, "start", lambda _: None)
    monkeypatch.setattr(CatchUp, "wake", lambda _: None)
    monkeypatch.setattr(ranges, "NEAR", 20)
    monkeypatch.setattr(slices, "SLICE_S", math.inf)  # else it would depend on how fast this machine is
