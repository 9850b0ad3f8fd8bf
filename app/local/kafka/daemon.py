"""The embedded Kafka in the background: one command starts it, others find and stop it.

Does not stop a broker that belongs to a command that still runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from app.local.kafka.broker import EmbeddedKafka, answers
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from app.local.kafka.jars import Progress
from app.local.kafka.processes import stop_process
from app.local.kafka.record import Running, read_record, remove_record
from knative.errors import NotReadyError, UsageError
from tables.timing import POLL_S


@dataclass(frozen=True, slots=True)
class State:
    """The broker of a data directory. `state`: up, starting (runs but does not answer), down."""

    state: str
    data_dir: Path
    bootstrap: str = ""
    pid: int | None = None
    attached: bool = False


def up(
    data_dir: Path,
    port: int | None,
    *,
    heap: str = DEFAULT_HEAP,
    jars_root: Path,
    limit_s: float,
    progress: Progress | None = None,
) -> tuple[State, bool]:
    """Start a broker in the background, or find the running one (`port` None = any). Second value: it was started now.

    Returns when it serves. Raises PenstockError with a hint, and leaves no process that it has started.
    """
    running = read_record(data_dir)
    if running is None:
        broker = EmbeddedKafka(
            data_dir, port or DEFAULT_PORT, heap=heap, jars_root=jars_root, detached=True, progress=progress
        )
        broker.start(limit_s)
        return status(data_dir), True
    if port not in (None, running.port):
        raise UsageError(
            f"The Kafka on {data_dir} is already up at {running.bootstrap}, not at port {port}.",
            "Use that port, stop it first (penstock kafka down), or choose another directory (--data DIR).",
        )
    end = time.monotonic() + limit_s
    while not answers(running.bootstrap):
        if time.monotonic() > end:
            raise NotReadyError(
                f"The Kafka on {data_dir} runs (process {running.pid}) but did not answer within {limit_s:.0f} s.",
                f"See {data_dir / 'broker.log'}; `penstock kafka down` stops it.",
            )
        time.sleep(POLL_S)
    return _state("up", data_dir, running), False


def down(data_dir: Path, limit_s: float) -> tuple[State, bool]:
    """Stop the broker of `data_dir` if one runs. Returns its former state, and whether it ended in time by itself."""
    running = read_record(data_dir)
    if running is None:
        return State("down", data_dir), True
    if running.attached:
        raise UsageError(
            f"The Kafka on {data_dir} (process {running.pid}) belongs to a command that still runs.",
            "Stop that command (Ctrl-C in its terminal); Kafka stops with it.",
        )
    clean = stop_process(running.pid, running.started, limit_s)
    remove_record(data_dir)
    return _state("up", data_dir, running), clean


def status(data_dir: Path) -> State:
    """What runs on `data_dir` now."""
    running = read_record(data_dir)
    if running is None:
        return State("down", data_dir)
    return _state("up" if answers(running.bootstrap) else "starting", data_dir, running)


def _state(state: str, data_dir: Path, running: Running) -> State:
    return State(state, data_dir, running.bootstrap, running.pid, running.attached)
