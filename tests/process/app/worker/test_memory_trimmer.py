"""What a burst took goes back to the system."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from app.worker.memory_trimmer import MemoryTrimmer
from tests.support.processes import REPOSITORY, wait_until

#: In a process of its own: where other tests ran before, the pieces fill the gaps that those left.
_BURST = """
from time import sleep
from app.worker.memory_trimmer import MemoryTrimmer, resident_bytes
from tests.support.processes import wait_until

trimmer = MemoryTrimmer(every_s=0.05, growth_bytes=1024 * 1024)
trimmer.start()
pieces = [bytes(50_000) + b"." for _ in range(1_500)]  # below what the C library maps one by one
full = resident_bytes()
sleep({seconds})
pinned = pieces[::100]  # the freed pieces lie between them, and it could not shrink by itself
del pieces
wait_until("memory is given back", lambda: resident_bytes() < full - 50 * 1024 * 1024, 60.0)
trimmer.stop()
print(len(pinned))
"""


@pytest.mark.parametrize("seconds", [0.0, 0.3], ids=["at once", "after it was in use for some checks"])
def test_memory_that_was_freed_goes_back(seconds: float) -> None:
    burst = _BURST.replace("{seconds}", str(seconds))
    done = subprocess.run([sys.executable, "-c", burst], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("15\n", "")


def test_old_garbage_is_collected_when_something_is_gone() -> None:
    class Thing:
        def __init__(self) -> None:
            self.itself = self

    thing = Thing()
    seen = weakref.ref(thing)
    gc.collect()  # now it is old: the next collection would be far away
    del thing
    assert seen() is not None
    trimmer = MemoryTrimmer(every_s=0.05)
    trimmer.start()
    try:
        trimmer.gone()
        wait_until("it is collected", lambda: seen() is None, 180.0)
    finally:
        trimmer.stop()
