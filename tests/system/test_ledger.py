"""The main proof: 20,000 events through two workers, one of which is killed and frozen, and nothing is lost.

    load --> worker `all` --> Kafka --> 3 subscriptions on both workers --> sink (random 500s)
                                          ^ the dispatcher: SIGTERM, start, SIGKILL and start three times, SIGSTOP
                                            for longer than its session, SIGCONT

Sender, sink and Kafka's own logs write the ledger; the checker judges it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.ledger.checker import Verdict, check
from tests.support.ledger.facts import Fact, Fault, Writer, read
from tests.support.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.support.resources import NAMESPACE, ORDERS, Wanted

pytestmark = pytest.mark.system

EVENTS, KEYS, PARTITIONS, SEED = 20_000, 500, 6, 20_261_121
DELIVERY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
KILLS = 3
FROZEN_S = 10.0  # its session is over after 8


def _wanted(sink: SinkProcess) -> list[Wanted]:
    return [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order, DELIVERY) for order in ORDERS]


def _kill(worker: Worker) -> Fault:
    from_s = time.time()
    worker.kill()
    return Fault("kill", from_s, time.time(), SEED)


def _freeze(worker: Worker) -> Fault:
    """Others take its partitions over; when it goes on it does not know, and what it settles must not be committed."""
    from_s = time.time()
    worker.pause()
    time.sleep(FROZEN_S)
    worker.resume()
    return Fault("freeze", from_s, time.time() + 1.0, SEED)  # until it has heard of it


def _received(sink: SinkProcess) -> int:
    return sum(counts["distinct"] for counts in sink.stats().values())


def _wait_progress(sink: SinkProcess, events: int, limit_s: float = 60) -> None:
    goal = min(_received(sink) + events, EVENTS * len(ORDERS))
    wait_until(f"{goal} events received", lambda: _received(sink) >= goal, limit_s, poll_s=0.1)


def _second_worker(installation: Installation, sink: SinkProcess, faults: list[Fault]) -> Worker:
    """A dispatcher that has joined, took partitions over and delivers, while events still come in."""
    started_s = time.time()
    second = installation.worker("dispatcher", controller=False).wait_ready()
    _wait_share(second)
    faults.append(Fault("join", started_s, time.time(), SEED))
    _wait_progress(sink, 300)
    assert _received(sink) < EVENTS * len(ORDERS), "everything was delivered before anything was broken"
    return second


def _end(worker: Worker) -> Fault:
    from_s = time.time()
    assert worker.terminate() == 0, worker.tail()
    return Fault("term", from_s, time.time(), SEED)


def _break_things(installation: Installation, sink: SinkProcess) -> tuple[list[Fault], Worker]:
    """End the second worker with SIGTERM while it delivers, kill and restart it three times, and freeze the last."""
    faults: list[Fault] = []
    with _second_worker(installation, sink, faults) as second:
        faults.append(_end(second))
    for _ in range(KILLS):
        with _second_worker(installation, sink, faults) as second:
            faults.append(_kill(second))
    started_s = time.time()
    last = installation.worker("dispatcher", controller=False).wait_ready()
    _wait_share(last)
    faults.append(Fault("join", started_s, time.time(), SEED))
    _wait_progress(sink, 300)
    faults.append(_freeze(last))
    before = last.consumed()
    wait_until("the frozen worker consumes again", lambda: last.consumed() > before, 60)
    return faults, last


def _wait_share(worker: Worker) -> None:
    """Until this worker's own consumers have taken records: it has partitions and is delivering."""
    wait_until("the second worker consumes", lambda: worker.consumed() > 0, 60)


def _facts(installation: Installation, folder: Path, faults: list[Fault]) -> list[Fact]:
    topic, dlq_topic = installation.resources.topic, installation.resources.dlq_topic
    groups = [installation.group(order) for order in ORDERS]
    with Writer(folder / "outside") as writer:
        writer.write_all(faults)
        writer.write_all(reader.stored(installation.bootstrap, topic))
        writer.write_all(reader.dead(installation.bootstrap, dlq_topic))
        writer.write_all(reader.committed(installation.bootstrap, groups))
    return list(read(folder / "sent", folder / "received", folder / "outside"))


def _run(kafka: EmbeddedKafka, folder: Path) -> Verdict:
    installation = Installation(kafka.bootstrap, folder, PARTITIONS)
    behaviours = {f"{NAMESPACE}/{order}": f"fail_chance=0.05,delay_s=0.002,seed={SEED}" for order in ORDERS}
    with SinkProcess(folder, behaviours, folder / "received") as sink:
        wanted = _wanted(sink)
        installation.write(wanted)
        with installation.worker() as first:
            first.wait_ready()
            installation.wait_subscribers(first, len(wanted))
            url, ledger = installation.url(first), folder / "sent"
            with LoadProcess(
                folder, url, events=EVENTS, keys=KEYS, rate=250, seed=SEED, sequential=True, ledger=ledger
            ) as load:
                faults, last = _break_things(installation, sink)
                with last:
                    result = load.result(150)
                    assert result["accepted"] == EVENTS, result
                    installation.wait_settled(ORDERS, 120)
                    rss_bytes = max(first.most_rss_bytes(), last.most_rss_bytes())
                    faults += [_end(last), _end(first)]
        assert sink.terminate() == 0
        facts = _facts(installation, folder, faults)
        return check(facts, [installation.rule(one) for one in wanted], max_rss_bytes=rss_bytes)


def test_nothing_is_lost_overtaken_or_repeated_without_reason(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Lost 0, order violations 0, attempts within bounds; duplicates only around kills, none from SIGTERM."""
    verdict = _run(kafka, tmp_path)
    print(verdict)
    assert verdict.violations == (), str(verdict)
    report = verdict.report
    assert (report.events, report.subscriptions, report.partitions) == (EVENTS, len(ORDERS), PARTITIONS)
    assert report.deliveries + report.dead_letters >= EVENTS * len(ORDERS)
    assert report.faults == {"kill": KILLS, "freeze": 1, "join": KILLS + 2, "term": 3}
    assert report.commits > 0
