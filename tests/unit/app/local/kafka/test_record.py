"""The record of a running broker is believed only with the start time of its process."""

from __future__ import annotations

import os
from pathlib import Path

from app.local.kafka.processes import start_time
from app.local.kafka.record import Running, read_record, record_file, write_record


def test_a_record_is_believed_only_with_its_start_time(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    mine = start_time(os.getpid())
    assert mine is not None
    running = Running(os.getpid(), mine, 9092, attached=True)
    write_record(tmp_path, running)
    assert read_record(tmp_path) == running
    write_record(tmp_path, Running(os.getpid(), "another boot:1", 9092, attached=True))
    assert read_record(tmp_path) is None
    record_file(tmp_path).write_text("{}")
    assert read_record(tmp_path) is None
