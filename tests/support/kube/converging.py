"""Waits until everything is as the resources say, once a fault is there or over."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.kube.penstock import LIMIT_S
from tests.support.processes import wait_until


def converges(what: str, holds: Callable[[], bool]) -> None:
    """Until it holds, and print how long that took. How long depends on which requests a fault meets: a Lease that
    cannot be renewed several times in a row is lost, and must be won again."""
    began_s = time.monotonic()
    wait_until(what, holds, LIMIT_S, poll_s=0.1)
    print(f"{what}: converged after {time.monotonic() - began_s:.1f} s")
