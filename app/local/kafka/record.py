"""What is written down about a running embedded broker, so that another process can find it and stop exactly it.

    <data dir>/broker.json: pid, start time of that pid, port, attached (a child of a command that still runs)

Refuses to take a process for the broker on its number alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from app.local.kafka.ports import LOOPBACK
from app.local.kafka.processes import is_running


@dataclass(frozen=True, slots=True)
class Running:
    """A broker process: `started` tells it from a later process of the same number."""

    pid: int
    started: str
    port: int
    attached: bool

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"


def record_file(data_dir: Path) -> Path:
    """Where the record of a data directory lies."""
    return data_dir / "broker.json"


def write_record(data_dir: Path, running: Running) -> None:
    """Replaces the record in one step."""
    path = record_file(data_dir)
    staging = path.with_suffix(f".{os.getpid()}")
    staging.write_text(json.dumps(asdict(running)) + "\n")
    staging.replace(path)


def read_record(data_dir: Path) -> Running | None:
    """The broker that runs on this data directory now, or None."""
    try:
        running = Running(**json.loads(record_file(data_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # never there, or not ours: no broker that we may touch
        return None
    return running if is_running(running.pid, running.started) else None


def remove_record(data_dir: Path) -> None:
    """The broker has ended."""
    record_file(data_dir).unlink(missing_ok=True)
