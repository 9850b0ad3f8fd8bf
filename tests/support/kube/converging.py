"""How long it may take until everything is as the resources say, once a fault is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.kube.penstock import LIMIT_S
from tests.support.processes import BusyMachine, wait_until

CONVERGES_S = 30.0  #: on a machine that has a processor for it


def converges(what: str, holds: Callable[[], bool]) -> None:
    """Until it holds. Raises AssertionError if it took longer than is promised, without the seconds in which others
    had the processors."""
    began_s, busy = time.monotonic(), BusyMachine()

    def look() -> bool:
        busy.look()
        return holds()

    wait_until(what, look, LIMIT_S, poll_s=0.1)
    took_s = time.monotonic() - began_s - busy.seconds
    assert took_s < CONVERGES_S, f"{what}: {took_s:.1f} s, and {busy.seconds:.1f} s of a busy machine"
