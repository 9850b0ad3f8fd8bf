"""The record of a running embedded broker, by which other processes find it and stop it.

    <data dir>/broker.json: pid, start time of that pid, port, attached (a child of a command that still runs)

The process id alone does not identify the broker, because the system uses ids again.
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
    """A broker process. `started` distinguishes it from a later process with the same id."""

    pid: int
    started: str
    port: int
    attached: bool

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"


def record_file(data_dir: Path) -> Path:
    """The record file of a data directory."""
    return data_dir / "broker.json"


def write_record(data_dir: Path, running: Running) -> None:
    """Replace the record in one step."""
    path = record_file(data_dir)
    staging = path.with_suffix(f".{os.getpid()}")
    staging.write_text(json.dumps(asdict(running)) + "\n")
    staging.replace(path)


def read_record(data_dir: Path) -> Running | None:
    """The broker that runs on this data directory now, or None."""
    try:
        running = Running(**json.loads(record_file(data_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # missing, or not our record: no broker that we may stop
        return None
    return running if is_running(running.pid, running.started) else None


def remove_record(data_dir: Path) -> None:
    """Remove the record: the broker has ended."""
    record_file(data_dir).unlink(missing_ok=True)
