"""A worker that starts again while a load sends 300 events a second: no connection is refused, and nothing is lost,
repeated or overtaken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.installation import Installation
from tests.support.ledger.checker import check
from tests.support.ledger.facts import Fault
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.support.resources import NAMESPACE, ORDERS, Wanted
from tests.system.worker_faults import WorkerFaults

LIMIT_S = 180.0
RATE, KEYS, SEED = 300, 500, 20_261_126


def starts(worker: Worker) -> int:
    """How often the program has started."""
    return worker.log.read_text().count("worker started")


def replacements(worker: Worker) -> list[str]:
    """The lines of the log that say when which process drained, had ended, and started."""
    steps = ("draining", "handed over", "executes its command again", "worker started", "has ended")
    return [line for line in worker.log.read_text().splitlines() if any(step in line for step in steps)]


def load_meanwhile(
    installation: Installation, restart: Callable[[Worker], None], broken: Sequence[Fault] = (), cut: str = ""
) -> dict[str, Any]:
    """What the load says of the time around a restart; the ledger is checked. `broken`: what `restart` notes while it
    does more than that. `cut`: the status of events whose connection was cut then."""
    folder = installation.folder
    behaviours = {f"{NAMESPACE}/{order}": "delay_s=0.002" for order in ORDERS}
    with SinkProcess(folder, behaviours, folder / "received") as sink:
        subscriptions = [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order) for order in ORDERS]
        installation.write(subscriptions)
        faults = WorkerFaults(installation, sink, 0, SEED)
        with installation.worker() as worker:
            worker.wait_ready()
            if installation.is_broker:
                installation.wait_triggers(ORDERS, LIMIT_S)
            else:
                installation.wait_subscribers(worker, len(subscriptions))

            def delivered() -> int:
                return min((counts["distinct"] for counts in sink.stats().values()), default=0)

            url, ledger = installation.url(worker), folder / "sent"
            # By turns: each connection is used all the time, which is what a worker that hands over waits for.
            with LoadProcess(
                folder, url, events=0, keys=KEYS, rate=RATE, seed=SEED, sequential=True, by_turns=True, ledger=ledger
            ) as load:
                wait_until("events are delivered", lambda: delivered() > RATE, LIMIT_S)
                restart(worker)
                before = delivered()
                wait_until("events are delivered", lambda: delivered() > before + RATE, LIMIT_S)
                load.process.terminate()
                result: dict[str, Any] = load.result(LIMIT_S)
            installation.wait_settled(ORDERS, LIMIT_S)
            assert worker.terminate() == 0, worker.tail()
        assert sink.terminate() == 0
    faults.noted += broken
    verdict = check(faults.facts(ORDERS), [installation.rule(subscription) for subscription in subscriptions])
    assert verdict.violations == (), str(verdict)
    assert set(result["statuses"]) - {cut} == {"202"}, "\n".join([str(result), *replacements(worker)])
    assert result["not_connected"] == 0, result
    print(result, verdict.report)
    return result
