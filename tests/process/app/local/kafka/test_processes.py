"""Only the process that was recorded is stopped."""

from __future__ import annotations

import subprocess
import sys
import threading

from app.local.kafka.processes import is_running, start_time, stop_process

_TIMES = 300


def test_only_the_recorded_process_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        started = start_time(process.pid)
        assert started is not None
        assert stop_process(process.pid, "another boot:1", 1)  # another process has this pid: not touched
        assert process.poll() is None
        assert stop_process(process.pid, started, 10)
        assert not is_running(process.pid, started)  # a zombie until it is waited for
        assert process.wait() == -15


def test_a_process_that_ends_by_itself_at_the_same_moment_has_ended() -> None:
    for _ in range(_TIMES):
        with subprocess.Popen(["sleep", "60"]) as process:
            started = start_time(process.pid)
            assert started is not None
            ends = threading.Thread(target=lambda ended=process: (ended.kill(), ended.wait()))
            ends.start()
            assert stop_process(process.pid, started, 60)
            ends.join()
