"""Has a controller kill or stop its own process at one step.

python -m tests.support.controller_faults FAULT STEP ARGUMENT...    `penstock ARGUMENT...` with this fault
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from controller.executor import Executor
from controller.plan.actions import Action
from tables.kafka.errors import KafkaFailed

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def plant(fault: str, step: str) -> None:
    """The run with the first action of this kind gets the fault: after all that is checked before it, or when it is
    done.

    `step`: the name of an action, or a name and a part of how it is written, such as `RememberSeek:'moving'`."""
    name, _, moment = fault.partition("-")
    kind, _, part = step.partition(":")
    do_all, hit = Executor._do_all, False

    async def faulty(self: Executor, run: Sequence[Action]) -> list[KafkaFailed | None]:
        nonlocal hit
        due = not hit and any(type(action).__name__ == kind and part in repr(action) for action in run)
        hit = hit or due
        if due and moment == "before":
            os.kill(os.getpid(), SIGNALS[name])
        problems = await do_all(self, run)
        if due and moment == "after":
            os.kill(os.getpid(), SIGNALS[name])
        return problems

    Executor._do_all = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    from app.cli import main

    if sys.argv[1] != "none":
        plant(*sys.argv[1:3])
    del sys.argv[1:3]
    main()
