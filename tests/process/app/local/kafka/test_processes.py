"""Only the process that was recorded is stopped."""

from __future__ import annotations

import subprocess
import sys

from app.local.kafka.processes import is_running, start_time, stop_process


def test_only_the_recorded_process_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        started = start_time(process.pid)
        assert started is not None
        assert stop_process(process.pid, "another boot:1", 1)  # another process has this pid: not touched
        assert process.poll() is None
        assert stop_process(process.pid, started, 10)
        assert not is_running(process.pid, started)  # a zombie until it is waited for
        assert process.wait() == -15
