"""`make demo-console`: the console over an installation with planted faults and traffic, to look at in a browser.

    examples/topology  ->  worker with the console, Kafka  <-->  a subscriber in this process: replies, refuses, loops
          traffic for --seconds; the address and what to look at are printed first

Uses free ports and a temporary directory, and needs no login: the console answers at this machine's own address only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from app.cli.demos.topology import stack_config, subscribers_at, traffic
from app.cli.output.format import note, print_error, print_json
from app.cli.output.jar_progress import jar_progress
from app.cli.output.steps import Steps
from app.local.stack import Stack
from knative.errors import PenstockError
from web.console.safety import Mode

_LOOK = """
  {url}

What to look at, while events flow for {seconds:.0f} s:

  Overview                    the worst come first: dead letters of press/ticker, shop/billing and plant/worker
  {url}/map
                              dots move with the events; games/ping is in a loop, and plant/again gets dead letters back
  {url}/subscription/shop/billing
                              what the last refused event was, who owns which partition, the settings that apply
"""


async def _run(http_port: int, subscriber_port: int, seconds: float) -> int:
    async with subscribers_at(subscriber_port):
        return await traffic(http_port, seconds)


def run(home: Path, seconds: float) -> dict[str, object]:
    """Start everything, say where to look, send traffic, stop everything."""
    config, subscriber_port = stack_config(home)
    config = replace(config, console=Mode.WRITE)
    url = f"http://localhost:{config.admin_port}"
    with jar_progress() as progress, Steps() as steps:
        stack = Stack(config, steps, progress)
        try:
            stack.start()
            note(_LOOK.format(url=url, seconds=seconds))
            accepted = asyncio.run(_run(config.http_port, subscriber_port, seconds))
            stack.check()
        finally:
            stack.stop()
    return {"console": url, "accepted": accepted}


def main() -> int:
    """Run `python -m app.cli.demos.console`. Ctrl-C ends it early."""
    parser = argparse.ArgumentParser(prog="python -m app.cli.demos.console", description="The console, shown.")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to send events")
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-console-") as folder:
            print_json(run(Path(folder), given.seconds))
    except PenstockError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        note("Stopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
