"""The main proof: thousands of events through two workers, one of which is killed and frozen, and nothing is lost.

    load --> worker `all` --> Kafka --> 3 subscriptions on both workers --> sink (random 500s)
                                          ^ the dispatcher: SIGTERM, start, SIGKILL and start three times, SIGSTOP
                                            for longer than its session, SIGCONT

Sender, sink and Kafka's own logs write the ledger; the checker judges it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger.checker import Verdict, check
from tests.support.processes import LoadProcess, SinkProcess, Worker
from tests.support.resources import NAMESPACE, ORDERS, Wanted
from tests.system.worker_faults import WorkerFaults

pytestmark = pytest.mark.system

EVENTS_MIN, EVENTS_MAX = 8_000, 20_000  # the load stops after the last fault
KEYS, PARTITIONS, SEED = 500, 6, 20_261_121
DELIVERY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
KILLS = 3


def _wanted(sink: SinkProcess) -> list[Wanted]:
    return [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order, DELIVERY) for order in ORDERS]


def _break_things(faults: WorkerFaults) -> Worker:
    """End the second worker with SIGTERM while it delivers, kill and restart it three times, and freeze the last."""
    with faults.join() as second:
        faults.end(second)
    for _ in range(KILLS):
        with faults.join() as second:
            faults.kill(second)
    last = faults.join()
    faults.freeze(last)
    return last


def _run(kafka: EmbeddedKafka, folder: Path) -> tuple[int, Verdict]:
    installation = Installation(kafka.bootstrap, folder, PARTITIONS)
    behaviours = {f"{NAMESPACE}/{order}": f"fail_chance=0.05,delay_s=0.002,seed={SEED}" for order in ORDERS}
    with SinkProcess(folder, behaviours, folder / "received") as sink:
        subscriptions = _wanted(sink)
        installation.write(subscriptions)
        faults = WorkerFaults(installation, sink, EVENTS_MAX * len(ORDERS), SEED)
        with installation.worker() as first:
            first.wait_ready()
            installation.wait_subscribers(first, len(subscriptions))
            url, ledger = installation.url(first), folder / "sent"
            with LoadProcess(
                folder, url, events=EVENTS_MAX, keys=KEYS, rate=250, seed=SEED, sequential=True, ledger=ledger
            ) as load:
                with _break_things(faults) as last:
                    events = faults.enough(load, EVENTS_MIN * len(ORDERS))
                    installation.wait_settled(ORDERS, 600)
                    rss_bytes = max(first.most_rss_bytes(), last.most_rss_bytes())
                    faults.end(last)
                faults.end(first)
        assert sink.terminate() == 0
        facts = faults.facts(ORDERS)
        return events, check(
            facts, [installation.rule(subscription) for subscription in subscriptions], max_rss_bytes=rss_bytes
        )


def test_nothing_is_lost_overtaken_or_repeated_without_reason(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Lost 0, order violations 0, attempts within bounds; duplicates only around kills, none from SIGTERM."""
    events, verdict = _run(kafka, tmp_path)
    print(verdict)
    assert verdict.violations == (), str(verdict)
    report = verdict.report
    assert (report.events, report.subscriptions, report.partitions) == (events, len(ORDERS), PARTITIONS)
    assert report.deliveries + report.dead_letters >= events * len(ORDERS)
    assert report.faults == {"kill": KILLS, "freeze": 1, "join": KILLS + 2, "term": 3}
    assert report.commits > 0
