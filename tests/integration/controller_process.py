"""A controller in a process of its own that kills or stops itself at one step, for tests of failover.

    python -m tests.integration.controller_process BOOTSTRAP FOLDER INSTANCE FAULT STEP

FAULT: `kill-before`, `kill-after`, `stop-before` or `none`; STEP: the name of an action, or a name and a part of how it
is written, such as `RememberSeek:moving`. It writes `leads` when it leads, and `deposed` when it does not any more.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.integration.controller_fixture import ControllerFixture
from tests.support.controller_faults import plant
from tests.support.processes import Child


class ControllerProcess(Child):
    """Started with a directory that has `ControllerFixture`'s files."""

    def __init__(self, bootstrap: str, folder: Path, instance: str, fault: str = "none", step: str = "") -> None:
        arguments = (bootstrap, str(folder), instance, fault, step)
        super().__init__("controller", [sys.executable, "-m", __name__, *arguments], folder)


async def main(bootstrap: str, folder: str, instance: str, fault: str, step: str) -> None:
    if fault != "none":
        plant(fault, step)
    async with ControllerFixture(bootstrap, Path(folder), instance) as running:
        before = False
        while True:
            if running.controller.leading != before:
                before = running.controller.leading
                print("leads" if before else "deposed", flush=True)
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
