"""Runs workers and a load while a Kafka fails in one way, and collects the ledger: shared by tests and the chaos run.

The subscribers are slower than the load, so that each worker holds events in memory when the failure begins: these are
what a worker could deliver without being able to commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.installation import Installation
from tests.ledger import reader
from tests.ledger.checker import Verdict, check
from tests.ledger.facts import Fault, Writer, read
from tests.ledger.worker_log import pauses
from tests.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.resources import NAMESPACE, ORDERS, Wanted

DELIVERY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
SETTLE_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What runs while Kafka fails. `rate`: events a second over all keys; `delay_s`: of each answer."""

    workers: int = 1
    rate: int = 300
    keys: int = 100
    partitions: int = 4
    delay_s: float = 0.02
    before: int = 1500  #: events received by all subscribers together before the failure begins
    after: int = 600  #: and after it has ended, before the load is stopped


def run(installation: Installation, folder: Path, scene: Scene, fail: Callable[[list[Worker]], Fault]) -> Verdict:
    """`fail(workers)` breaks Kafka, waits, mends it, and returns the fault with its times."""
    behaviours = {f"{NAMESPACE}/{order}": f"delay_s={scene.delay_s}" for order in ORDERS}
    with SinkProcess(folder, behaviours, folder / "received") as sink, ExitStack() as stack:
        wanted = [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order, DELIVERY) for order in ORDERS]
        installation.write(wanted)
        first = stack.enter_context(installation.worker())
        first.wait_ready()
        installation.wait_subscribers(first, len(wanted))
        workers = [first]
        for _ in range(scene.workers - 1):
            another = stack.enter_context(installation.worker("dispatcher", controller=False))
            workers.append(another.wait_ready())
        url, ledger = installation.url(first), folder / "sent"
        with LoadProcess(
            folder, url, events=0, rate=scene.rate, keys=scene.keys, connections=32, sequential=True, ledger=ledger
        ) as load:
            wait_until("each worker consumes", lambda: all(worker.consumed() > 0 for worker in workers), 60)
            _wait_received(sink, scene.before)
            fault = fail(workers)
            _wait_received(sink, scene.after)
            load.process.terminate()
            load.result(60)
        installation.wait_settled(ORDERS, SETTLE_LIMIT_S)
        rss_bytes = max(worker.most_rss_bytes() for worker in workers)
        for worker in reversed(workers):
            assert worker.terminate() == 0, worker.tail()
        assert sink.terminate() == 0
    groups = [installation.group(order) for order in ORDERS]
    with Writer(folder / "outside") as writer:
        writer.write(fault)
        for worker in workers:
            writer.write_all(pauses(worker.log))
        writer.write_all(reader.stored(installation.bootstrap, installation.resources.topic))
        writer.write_all(reader.committed(installation.bootstrap, groups))
    facts = read(folder / "sent", folder / "received", folder / "outside")
    return check(facts, [installation.rule(one) for one in wanted], max_rss_bytes=rss_bytes)


def _wait_received(sink: SinkProcess, more: int, limit_s: float = 90.0) -> None:
    def received() -> int:
        return sum(counts["distinct"] for counts in sink.stats().values())

    goal = received() + more
    wait_until(f"{more} more events are received", lambda: received() >= goal, limit_s, poll_s=0.1)
