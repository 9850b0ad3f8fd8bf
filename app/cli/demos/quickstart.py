"""`make demo`: starts what `penstock up` starts, sends 1,000 events through it, and prints one JSON object as its last
line.

    send (one sender per key, each event after the last 202)  ->  worker, Kafka  ->  ledger, DLQ topic

Uses free ports and a temporary directory; only Kafka's jars are shared. A latency is the time from sending an event to
its arrival at the subscription `good`; `picky` waits for its own retries, so it has a separate figure. Ends with 0 only
if no event was lost or out of order. Counts at the subscriber and in the DLQ topic, and does not use the worker's
counters, because these may be what is wrong.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import orjson

from app.cli.demos.report import Attempt, DemoCounts
from app.cli.output.format import note, print_error, print_json
from app.cli.output.jar_progress import jar_progress
from app.cli.output.steps import Steps
from app.local.kafka.ports import LOOPBACK, free_port
from app.local.packaged import QUICKSTART, example
from app.local.quickstart import place_quickstart
from app.local.stack import Stack, StackConfig
from app.operations.contract_snapshot import read_contract
from app.timing import HTTP_S, START_S
from knative.errors import PenstockError
from tables.kafka.topic_reader import TopicReader
from tables.timing import SPARING_S

EVENTS = 1_000
KEYS = 20
_JARS_ROOT = Path(".penstock/kafka")
_LOG = Path(".penstock/logs/demo-worker.log")
_INSTANCE = "demo"


def main() -> int:
    """Run the demo. Exit code 0: nothing lost, nothing out of order; otherwise 1, or 3 if it did not become ready."""
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            report = run(Path(folder))
    except PenstockError as error:
        print_error(error)
        return error.exit_code
    print_json(report)
    return 0 if report["lost"] == 0 and report["out_of_order"] == 0 and report["accepted"] == report["sent"] else 1


def run(home: Path, events: int = EVENTS) -> dict[str, object]:
    """Start everything, send `events` events, stop everything; returns the report."""
    ledger = home / "ledger.jsonl"
    ports = distinct_ports(4)
    place_quickstart(example("quickstart"), home / "resources", ports[3])
    config = StackConfig(
        home=home,
        resources=home / "resources",
        jars_root=_JARS_ROOT,
        kafka_port=ports[0],
        kafka_data=home / "kafka",
        heap="384m",
        http_port=ports[1],
        admin_port=ports[2],
        subscriber_port=ports[3],
        subscriber_arguments=("--ledger", str(ledger), "--quiet"),
        settings={"instance": _INSTANCE},
    )
    began = time.monotonic()
    with jar_progress() as progress, Steps() as steps:
        stack = Stack(config, steps, progress)
        try:
            stack.start()
            note(f"Ready after {time.monotonic() - began:.1f} s. Sending {events} events of {KEYS} keys ...")
            sending = time.monotonic()
            statuses = asyncio.run(send_all(f"http://{LOOPBACK}:{config.http_port}/channels/{QUICKSTART}", events))
            note(f"Sent in {time.monotonic() - sending:.1f} s. Waiting for deliveries, retries and dead letters ...")
            return _count(stack, statuses, ledger).report()
        finally:
            stack.stop()
            if stack.worker_log.exists():  # everything else is removed with the temporary directory
                _LOG.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(stack.worker_log, _LOG)


def distinct_ports(count: int) -> list[int]:
    """Returns distinct free ports of loopback."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


async def send_all(url: str, events: int) -> dict[str, int]:
    """Returns event id -> HTTP status. Events of one key are sent one by one, different keys at the same time."""
    statuses: dict[str, int] = {}
    timeout = aiohttp.ClientTimeout(total=HTTP_S)

    async def send_key(key: int) -> None:
        for sequence, number in enumerate(range(key, events, KEYS)):
            event_id = f"demo-{number}"
            headers = {
                "ce-specversion": "1.0",
                "ce-id": event_id,
                "ce-source": "/penstock/demo",
                "ce-type": "dev.penstock.demo",
                "ce-partitionkey": f"key-{key}",
                "ce-demosequence": str(sequence),
                "ce-demosent": str(time.time_ns()),
                "content-type": "application/json",
            }
            try:
                async with session.post(url, data=orjson.dumps({"number": number}), headers=headers) as answer:
                    await answer.read()
                    statuses[event_id] = answer.status
            except (TimeoutError, aiohttp.ClientError) as problem:
                note(f"the ingress did not answer the event {event_id}: {problem!r}")
                statuses[event_id] = 0

    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
        for key in range(KEYS):
            group.create_task(send_key(key))
    return statuses


def _count(stack: Stack, statuses: Mapping[str, int], ledger: Path) -> DemoCounts:
    """Count the ledger and the DLQ topic until every accepted event is settled, or the limit has passed."""
    client = {"bootstrap.servers": stack.bootstrap}
    contract = read_contract(client, _INSTANCE)
    (channel,) = contract.channels
    counts = DemoCounts(
        statuses,
        {subscription.label: subscription.subscriber.uri.rpartition("/")[2] for subscription in contract.subscriptions},
    )
    end = time.monotonic() + START_S
    with ledger.open("rb") as lines:
        rest = b""
        while True:
            stack.check()
            *whole, rest = (rest + lines.read()).split(b"\n")
            for line in whole:
                counts.attempt(Attempt.read(orjson.loads(line)))
            with TopicReader(channel.dlq_topic, client) as reader:
                for record in reader.stored():
                    counts.dead_letter(record)
            if not counts.missing or time.monotonic() > end:
                return counts
            time.sleep(SPARING_S)


if __name__ == "__main__":
    sys.exit(main())
