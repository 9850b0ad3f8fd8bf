"""Publishes what this worker serves, to the status topic: all of it in each interval, and what changes soon.

interval over   ----------> statuses and statistics of all -> all records
changed(uid), some of them -> their statuses -> the records that have them, and the first one with the time
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import version

import structlog

from app.worker.parts import Parts
from knative.contract import kafka_names
from knative.contract.features import SUPPORTED
from knative.contract.records import WorkerStatus, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionStats
from tables.status_parts import StatusEncoder, keys_of
from tables.status_table import FRESH_S

log = structlog.get_logger(__name__)

_VERSION, _FEATURES = version("penstock"), tuple(sorted(SUPPORTED))
_SOON_S = 0.05  # several changes at once become one publication


class StatusPublisher:
    """Event loop only. To look at 10,000 subscriptions takes 0.3 s of CPU, and a rebalance changes one after the other:
    so a change looks only at what has changed, and writes only the records that have it."""

    def __init__(self, parts: Parts) -> None:
        """`parts`: with a supervisor."""
        self._parts = parts
        self._encoder = StatusEncoder()
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self._served: dict[str, WorkerSubscription] = {}
        self._stats: dict[str, SubscriptionStats] = {}

    def changed(self, uid: str) -> None:
        """The status of this subscription may be another one: publish it soon."""
        self._changed.add(uid)
        self._wake.set()

    async def run(self) -> None:
        """Publish until it is cancelled."""
        while True:
            rest_s = max(self._parts.settings.status_interval_s, _rest_s(self.publish_all))
            try:
                async with asyncio.timeout(min(rest_s, FRESH_S / 2)):
                    while True:
                        await self._wake.wait()
                        await asyncio.sleep(_SOON_S)
                        await asyncio.sleep(_rest_s(self.publish_changes))
            except TimeoutError:
                continue

    def publish_all(self) -> None:
        """Publish the statuses and the statistics of all subscriptions."""
        parts = self._parts
        assert parts.supervisor is not None
        self._take_changes()
        self._stats = parts.supervisor.stats()
        unsupported = {uid: subscription.status for uid, subscription in parts.contract.unsupported.items()}
        self._served = {**unsupported, **parts.supervisor.statuses()}
        self._publish()

    def publish_changes(self) -> None:
        """Publish the statuses and the statistics of those that have changed."""
        supervisor = self._parts.supervisor
        assert supervisor is not None
        uids, unsupported = self._take_changes(), self._parts.contract.unsupported
        for uid in uids:
            self._served.pop(uid, None)
            self._stats.pop(uid, None)
            status = supervisor.status(uid)
            if status is not None:
                self._served[uid] = status
            elif uid in unsupported:
                self._served[uid] = unsupported[uid].status
        self._stats.update(supervisor.stats(uids))
        self._publish(uids)

    def goodbye(self) -> None:
        """Remove the records: this worker serves nothing any more."""
        if self._parts.producer.connected:
            gone = WorkerStatus(self._parts.worker_id, 0.0, "", parts=self._encoder.parts)
            self._send((key, None) for key in keys_of(gone))

    def _take_changes(self) -> Collection[str]:
        changed, self._changed = self._changed, set()
        self._wake.clear()
        return changed

    def _publish(self, uids: Collection[str] | None = None) -> None:
        """`uids`: what has changed; None = perhaps everything."""
        parts = self._parts
        secrets = parts.secrets.problems if parts.secrets is not None else {}
        who = (parts.worker_id, time.time(), parts.settings.role)
        status = WorkerStatus(*who, self._served, self._stats, _VERSION, _FEATURES, secrets, parts.unused)
        if parts.producer.connected:
            self._send(self._encoder.records(status, uids))

    def _send(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        topic = kafka_names.status_topic(self._parts.settings.instance)
        for key, value in records:
            self._parts.producer.send(topic, value, key, [], _stored, 0)


def _rest_s(publish: Callable[[], None]) -> float:
    """Publish, and return how long to rest then: publishing takes a tenth of a core at most, for thousands too, and its
    readers no more."""
    began_s = time.thread_time()
    publish()
    return 9 * (time.thread_time() - began_s)


def _stored(failure: object) -> None:
    if failure is not None:
        log.debug("status record was not stored", reason=str(failure))
