"""What a worker publishes when little of much has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.status_publisher import StatusPublisher
from knative.contract.records import Unsupported, WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionStats
from tables.kafka.compacted_topic import Record
from tables.status_table import StatusTable
from tests.support.fakes import MemoryProduce

MANY = 10_000


class _Supervisor:
    """Serves these, and remembers which it was asked about."""

    def __init__(self) -> None:
        row = WorkerSubscription(1, tuple(range(10)), WorkerState.RUNNING)
        self.rows = {f"5f0c1c2e-8d1b-4b47-9c39-{number:012}": row for number in range(MANY)}
        self.asked: list[str] = []

    def status(self, uid: str) -> WorkerSubscription | None:
        self.asked.append(uid)
        return self.rows.get(uid)

    def statuses(self) -> dict[str, WorkerSubscription]:
        return dict(self.rows)

    def stats(self, uids: Iterable[str] | None = None) -> dict[str, SubscriptionStats]:
        return {uid: SubscriptionStats(lag=7) for uid in (self.rows if uids is None else uids) if uid in self.rows}


class _Produce(MemoryProduce):
    connected = True

    def into(self, table: StatusTable) -> int:
        """Apply what was sent since the last call. Returns its size in bytes."""
        sent, self.records = self.records, []
        table.apply([Record(record.key or b"", record.value) for record in sent])
        return sum(len(record.value or b"") for record in sent)


def _publisher() -> tuple[_Supervisor, _Produce, dict[str, Unsupported], StatusPublisher]:
    supervisor, produce, unsupported = _Supervisor(), _Produce(), dict[str, Unsupported]()
    parts: Any = SimpleNamespace(
        supervisor=supervisor,
        contract=SimpleNamespace(unsupported=unsupported),
        secrets=None,
        worker_id="w",
        settings=SimpleNamespace(role="dispatcher", instance="i", status_interval_s=0.5),
        unused=None,
        producer=produce,
    )
    return supervisor, produce, unsupported, StatusPublisher(parts)


def _read(table: StatusTable) -> WorkerStatus:
    (status,) = table.workers.values()
    return status


def test_change_costs_what_has_changed_and_readers_have_all() -> None:
    supervisor, produce, unsupported, publisher = _publisher()
    table = StatusTable("t", {}, crashed=lambda _: None)
    publisher.publish_all()
    whole = produce.into(table)
    assert _read(table).subscriptions == supervisor.rows
    changed, gone, new, old = "a-changed", next(iter(supervisor.rows)), "a-new", "an-old"
    supervisor.rows[changed] = WorkerSubscription(2, (1,), WorkerState.RUNNING)
    del supervisor.rows[gone]
    supervisor.rows[new] = WorkerSubscription(1, (), WorkerState.STARTING)
    unsupported[old] = Unsupported(old, 3, "n", "s", "Trigger", ("colour",))
    for uid in (changed, gone, new, old):
        publisher.changed(uid)
    publisher.publish_changes()
    assert sorted(supervisor.asked) == sorted((changed, gone, new, old))
    assert produce.into(table) < whole
    assert _read(table).subscriptions == {**supervisor.rows, old: unsupported[old].status}
    assert (_read(table).stats[new].lag, _read(table).stats.get(gone)) == (7, None)
    publisher.changed(new)
    publisher.publish_changes()
    assert produce.into(table) <= whole / 2, "its record and the first one"
    publisher.goodbye()
    produce.into(table)
    assert table.workers == {}


def test_what_it_still_serves_is_not_unsupported_yet() -> None:
    """A seek takes a worker that says so for one that has stopped."""
    supervisor, produce, unsupported, publisher = _publisher()
    table = StatusTable("t", {}, crashed=lambda _: None)
    uid = next(iter(supervisor.rows))
    unsupported[uid] = Unsupported(uid, 2, "n", "s", "Trigger", ("colour",))
    for publish in (publisher.publish_all, publisher.publish_changes):
        publisher.changed(uid)
        publish()
        produce.into(table)
        assert _read(table).subscriptions[uid] == supervisor.rows[uid]


def test_what_has_changed_is_published_once() -> None:
    supervisor, produce, _, publisher = _publisher()
    publisher.changed("a")
    publisher.publish_all()
    produce.records.clear()
    publisher.publish_changes()
    assert supervisor.asked == []


@pytest.mark.asyncio
async def test_publisher_repeats_the_status_and_sends_changes_soon() -> None:
    supervisor, produce, _, publisher = _publisher()
    supervisor.rows = {"a": WorkerSubscription(1, (0,), WorkerState.RUNNING)}
    publishing = asyncio.get_running_loop().create_task(publisher.run())

    async def sent(count: int) -> None:
        async with asyncio.timeout(60.0):
            while len(produce.records) < count:
                await asyncio.sleep(0.01)

    try:
        await sent(1)
        assert supervisor.asked == []
        publisher.changed("a")
        await sent(2)
        await sent(4)
    finally:
        publishing.cancel()
    assert supervisor.asked == ["a"]
