"""Facts that only a worker itself knows, from its log in JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import orjson

from agents.offsets.commits import WAITING_MESSAGE
from tests.support.ledger.facts import Paused


def pauses(log: Path) -> Iterator[Paused]:
    """Each time that the worker stopped making first attempts because Kafka confirmed no commits."""
    for line in log.read_bytes().splitlines():
        if WAITING_MESSAGE.encode() in line:
            entry = orjson.loads(line)
            yield Paused(
                entry["subscription"].replace("/trigger:", "/"), datetime.fromisoformat(entry["timestamp"]).timestamp()
            )
