"""`make demo-topology`: a Kafka, a worker, resources with planted faults, a minute of traffic, and the report of it.

    examples/topology  ->  worker, Kafka  <-->  a subscriber in this process: replies, refuses, stops loops in time
          traffic for --seconds, until all is settled  ->  penstock topology's own reading, building and writing

Uses free ports and a temporary directory; the report remains, in --out. Ends with 0 only if exactly the planted
findings were found. All faults are in examples/topology.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Tier, Topology
from app.cli.demos.quickstart import distinct_ports
from app.cli.output.format import note, print_error, print_json
from app.cli.output.jar_progress import jar_progress
from app.cli.output.steps import Steps
from app.cli.output.topology import show_topology
from app.local.kafka.ports import LOOPBACK
from app.local.packaged import example
from app.local.stack import PICKY, Stack, StackConfig
from app.operations.topology.reading import TopologyQuery, read_inputs
from app.operations.topology.writing import PAGE, write_report
from app.timing import HTTP_S, LOOK_S, START_S
from knative.errors import PenstockError

OUT = Path(".penstock/topology-demo")
_JARS_ROOT = Path(".penstock/kafka")
_INSTANCE = "demo"

#: (channel, source) of the events in each round
SENDERS = (
    ("shop/orders", "/web"),
    ("shop/orders", "/app"),
    ("games/ping", "/referee"),
    ("plant/work", "/foreman"),
    ("press/news", "/agency"),
    ("press/prices", "/exchange"),
    ("attic/unheard", "/crier"),
)

#: The findings that examples/topology has planted
PLANTED = frozenset(
    {
        "reply-loop:channel:games/ping",
        "dead-letter-loop:channel:plant/again",
        "double-delivery:uri:{subscriber}/reader",
        "no-dead-letters:subscription:press/ticker",
        "dead-lettering:subscription:press/ticker",
        "dead-lettering:subscription:shop/billing",
        "dead-lettering:subscription:plant/worker",
        "unread:channel:attic/unheard",
        "unsent:channel:attic/forgotten",
        "undeclared-type:type:dev.penstock.demo.ball",
        "unseen-type:channel:press/prices",
    }
)


class Subscriber:
    """All subscribers of the example, by path."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], int] = {}

    def app(self) -> web.Application:
        """Returns the application to serve."""
        app = web.Application()
        app.router.add_post("/{name}", self._receive)
        return app

    async def _receive(self, request: web.Request) -> web.Response:
        await request.read()
        name, headers = request.match_info["name"], request.headers
        event = headers.get("ce-id", "")
        if name in ("billing", "ticker", "worker") and event.endswith("0") and self._refuses(name, event):
            return web.Response(status=400, text="this subscriber rejects every tenth event\n")
        if name == "shipping":
            return _reply(f"{event}-shipment", "/shipping", "shipment", 0)
        rounds = int(headers.get("ce-rounds", "0"))
        if name in ("player-1", "player-2") and rounds < 4:
            return _reply(f"{event}-{rounds}", f"/{name}", "ball", rounds + 1)
        return web.Response()

    def _refuses(self, name: str, event: str) -> bool:
        """Returns whether to reject the event. The worker's third attempt succeeds; else its loop would never end."""
        count = self._refused[name, event] = self._refused.get((name, event), 0) + 1
        return name != "worker" or count <= 2


@asynccontextmanager
async def subscribers_at(port: int) -> AsyncIterator[None]:
    """Within the block, the subscribers of the example listen on loopback."""
    runner = web.AppRunner(Subscriber().app(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port, shutdown_timeout=1.0).start()
        yield
    finally:
        await runner.cleanup()


def _reply(event: str, source: str, kind: str, rounds: int) -> web.Response:
    return web.json_response({}, headers=_headers(event, source, kind) | {"ce-rounds": str(rounds)})


def _headers(event: str, source: str, kind: str) -> dict[str, str]:
    return {"ce-specversion": "1.0", "ce-id": event, "ce-source": source, "ce-type": f"dev.penstock.demo.{kind}"}


def place(target: Path, ports: Mapping[int, int]) -> Path:
    """Copy the example with other ports; returns `target`."""
    target.mkdir(parents=True)
    for file in sorted(example("topology").glob("*.yaml")):
        text = file.read_text()
        for written, real in ports.items():
            text = text.replace(f"{LOOPBACK}:{written}/", f"{LOOPBACK}:@{real}/")
        (target / file.name).write_text(text.replace(f"{LOOPBACK}:@", f"{LOOPBACK}:"))
    return target


async def traffic(http_port: int, seconds: float) -> int:
    """Send for this many seconds, so much that some events are rejected; returns how many were accepted."""
    base = f"http://{LOOPBACK}:{http_port}/channels"
    accepted = 0
    end = time.monotonic() + seconds
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_S)) as session:
        for number in itertools.count(1):
            if time.monotonic() > end and number > 20:  # the subscriber rejects every tenth
                return accepted
            for channel, source in SENDERS:
                headers = _headers(f"{source[1:]}-{number}", source, "thing")
                async with session.post(f"{base}/{channel}", json={"number": number}, headers=headers) as answer:
                    accepted += answer.status == 202
            await asyncio.sleep(0.25)
    raise AssertionError("unreachable")


async def settled(stack: Stack, began: float) -> None:
    """Wait until nothing is unsettled and the last counts are written. Raises PenstockError after a limit."""
    end = time.monotonic() + START_S
    quiet = 0
    while quiet < 3:
        stack.check()
        inputs = await asyncio.to_thread(read_inputs, _query(stack, began))
        waiting = sum((state.lag or 0) + state.in_flight + state.retrying for state in inputs.states.values())
        quiet = 0 if waiting or inputs.tier is not Tier.DELTAS else quiet + 1
        if time.monotonic() > end:
            raise PenstockError(
                f"{waiting} events were not settled within {START_S:.0f} s (traffic: {inputs.tier.value})."
            )
        await asyncio.sleep(LOOK_S)


def _query(stack: Stack, began: float) -> TopologyQuery:
    now = time.time()
    return TopologyQuery(
        {"bootstrap.servers": stack.bootstrap}, _INSTANCE, now, began, now, tier=None, folder=Path("/nowhere")
    )


async def _run_traffic(stack: Stack, config: StackConfig, subscriber_port: int, seconds: float) -> Topology:
    async with subscribers_at(subscriber_port):
        began = time.time()
        note(f"Sending events for {seconds:.0f} s ...")
        accepted = await traffic(config.http_port, seconds)
        note(f"{accepted} events were accepted. Waiting until all of them are settled ...")
        await settled(stack, began)
        inputs = await asyncio.to_thread(read_inputs, _query(stack, began))
        return build(inputs, LocalEngine())


def stack_config(home: Path) -> tuple[StackConfig, int]:
    """Returns what to start at free ports, and the port of its subscribers."""
    kafka_port, http_port, admin_port, subscriber_port = distinct_ports(4)
    config = StackConfig(
        home=home,
        resources=place(home / "resources", {8080: http_port, 8090: subscriber_port}),
        jars_root=_JARS_ROOT,
        kafka_port=kafka_port,
        kafka_data=home / "kafka",
        heap="384m",
        http_port=http_port,
        admin_port=admin_port,
        subscriber_port=0,
        settings={"instance": _INSTANCE},
        expected=(*PICKY, "ignored"),
    )
    return config, subscriber_port


def run(home: Path, seconds: float) -> tuple[Topology, frozenset[str]]:
    """Start everything, send traffic, stop everything; returns the document and the ids of the planted findings."""
    config, subscriber_port = stack_config(home)
    with jar_progress() as progress, Steps() as steps:
        stack = Stack(config, steps, progress)
        try:
            stack.start()
            topology = asyncio.run(_run_traffic(stack, config, subscriber_port, seconds))
        finally:
            stack.stop()
    subscriber = f"http://{LOOPBACK}:{subscriber_port}"
    return topology, frozenset(planted.format(subscriber=subscriber) for planted in PLANTED)


def main() -> int:
    """Run `python -m app.cli.demos.topology`."""
    parser = argparse.ArgumentParser(prog="python -m app.cli.demos.topology", description="The topology report, shown.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to send events")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the report")
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-topology-") as folder:
            topology, planted = run(Path(folder), given.seconds)
        files = write_report(topology, given.out)
    except PenstockError as error:
        print_error(error)
        return error.exit_code
    show_topology(topology)
    ids = {finding.id for finding in topology.findings}
    report = {
        "report": str(given.out / PAGE),
        "files": len(files),
        "findings": len(ids),
        "missing": sorted(planted - ids),
        "unexpected": sorted(ids - planted),
    }
    print_json(report)
    return 0 if ids == planted else 1


if __name__ == "__main__":
    sys.exit(main())
