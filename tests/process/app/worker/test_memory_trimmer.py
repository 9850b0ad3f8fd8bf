"""What a burst took goes back to the system."""

from __future__ import annotations

import gc
import weakref

from app.worker.memory_trimmer import MemoryTrimmer, resident_bytes
from tests.support.processes import wait_until

_MIB = 1024 * 1024


def test_memory_that_was_freed_goes_back() -> None:
    trimmer = MemoryTrimmer(every_s=0.05, growth_bytes=_MIB)
    trimmer.start()
    try:
        pieces = [bytes(50_000) + b"." for _ in range(1_500)]  # below what the C library maps one by one
        full = resident_bytes()
        pinned = pieces[::100]  # the freed pieces lie between them, and it could not shrink by itself
        del pieces
        wait_until("memory is given back", lambda: resident_bytes() < full - 50 * _MIB, 10.0)
        assert len(pinned) == 15
    finally:
        trimmer.stop()


def test_old_garbage_is_collected_when_something_is_gone() -> None:
    class Thing:
        def __init__(self) -> None:
            self.itself = self

    thing = Thing()
    seen = weakref.ref(thing)
    gc.collect()  # now it is old: nobody would look at it for long
    del thing
    assert seen() is not None
    trimmer = MemoryTrimmer(every_s=0.05)
    trimmer.start()
    try:
        trimmer.gone()
        wait_until("it is collected", lambda: seen() is None, 10.0)
    finally:
        trimmer.stop()
