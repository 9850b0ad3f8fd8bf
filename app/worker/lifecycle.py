"""The lifecycle of a worker: the order in which its parts start and stop, liveness and readiness.

    start:  Kafka answers -> web server listens (not ready) -> producer, controller, tables, supervisor -> ready
    stop:   not ready -> supervisor drains and commits, leaves its groups; ingress drains -> controller
            -> producer -> tables -> only then Faust's own stop
    again:  the same, but ingress goes on until all others have stopped; after the producer this process executes
            itself, and connections wait at its sockets until the next run of it is ready

Ready = contract read to its end once, Secrets of Brokers tried once, producer connected once, not draining. `/readyz`
shows a Kafka outage as a field and stays ready: an outage must not take every pod out of service at once. So it does
with what does not work at the API server, unless the process does nothing but reconcile. A task or thread that fails
ends the process with exit code 1, and the next owner of its partitions continues at their committed offsets.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

from app.timing import GLANCE_S
from app.worker import file_limits
from app.worker.kafka_at_start import outage_ends, wait_for_kafka
from app.worker.memory_trimmer import MemoryTrimmer
from app.worker.parts import Parts
from app.worker.ports import Ports, handle_signals
from app.worker.seat import Seat
from app.worker.secrets.file_watch import FileWatch
from app.worker.status_publisher import StatusPublisher
from app.worker.watchdog import Watchdog
from controller.kafka.internal_topics import ensure_internal_topics
from knative import timefmt
from knative.contract.records import named_channel
from knative.errors import ExitCode, PenstockError
from tables.kafka.errors import KafkaFailed
from tables.status_table import subscriber_details
from tables.subscriber_details import SubscriberDetails

log = structlog.get_logger(__name__)

_GONE_S = 1.0  # for Faust's own stop, when everything of ours has stopped
_STOP_S = 40.0  # in addition to the drain: for a Kafka that does not answer, and for Faust


class Lifecycle:
    """Event loop only. The Faust app calls `before_start`, `start` and `stop`."""

    def __init__(self, seat: Seat | None = None) -> None:
        """`seat`: of this process among several."""
        self.parts: Parts | None = None
        self.draining = False
        self._seat = seat
        self.ports = Ports(seat)
        self._ending: asyncio.Task[None] | None = None
        self._kafka_away = False  # since the start
        self._metric_topics: set[str] = set()
        self._watchdog = Watchdog(lagged=self._loop_lagged)
        self.memory = MemoryTrimmer()
        self.watches: list[FileWatch[Any]] = []  #: of files that are read again when they change
        self._watching: list[asyncio.Task[None]] = []
        self._publisher: asyncio.Task[None] | None = None
        self._status: StatusPublisher | None = None

    # -- start

    @property
    def is_first(self) -> bool:
        """Whether this process has what is needed once: it is the only one, or the first one of several."""
        return self._seat is None or self._seat.is_first

    async def before_start(self, web: Any) -> None:
        """Wait for Kafka. If it does not answer in time, log that, and end with exit code 3, or keep waiting.

        `web`: the ingress server."""
        settings = self._parts.settings
        for warning in (*settings.warnings, file_limits.allow(settings.connections_max)):
            if warning is not None:
                log.warning(warning)
        loop, renewal = asyncio.get_running_loop(), self._parts.renewal
        if renewal is not None:
            loop.add_signal_handler(signal.SIGHUP, renewal.hang_up)
        elif self._seat is not None:  # the first process has tried what is new, and this one is to be replaced
            loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(self.restart(web)))
        handle_signals()
        why = await wait_for_kafka(settings, self._parts.controller_config.kafka)
        if why is not None and self._parts.outage is None:
            os._exit(ExitCode.NOT_READY)
        self._kafka_away = why is not None

    async def start(self, web: Any) -> None:
        """Start everything that needs a running loop. `web`: the ingress server."""
        parts = self._parts
        # The producer and the internal topics come first: all later parts write to them or read them.
        self._watchdog.start()
        self.memory.start()
        runs = [self._serve(web)]
        runs += [watch.run() for watch in (*self.watches, parts.renewal) if watch is not None]
        self._watching = [asyncio.get_running_loop().create_task(run) for run in runs]
        for watching in self._watching:
            watching.add_done_callback(self._watch_ended)
        if parts.outage is not None and self._kafka_away:
            with _ending_for_usage():
                answers = await outage_ends(parts.outage, parts.controller_config.kafka, lambda: self.draining)
            if not answers:
                return
        await parts.producer.start()
        await self._internal_topics()
        if parts.controller is not None:
            with _ending_for_usage():
                await parts.controller.start()
        if parts.dlq_sizes is not None:
            parts.dlq_sizes.start()
        if parts.secrets is not None:
            # Before the contract is read: otherwise the worker would be ready before any Secret was tried.
            parts.secrets.start()
        parts.contract.on_change(self._show_topics)
        parts.contract.start()
        parts.status.start()
        if parts.supervisor is not None:
            parts.supervisor.start()
            self._status = StatusPublisher(parts)
            self._publisher = asyncio.get_running_loop().create_task(self._publish_status(self._status))
        if parts.admin is not None:
            await parts.admin.start(self.ports.admin)
        threshold = parts.settings.gc_threshold
        # Everything that was imported and built by now lives as long as the process. Frozen, it is not scanned again
        # by each full collection, for which the event loop has to wait.
        gc.collect()
        gc.freeze()
        if threshold:
            gc.set_threshold(threshold, 20, 100)
        log.info("worker started", role=parts.settings.role, worker=parts.worker_id, kafka=parts.settings.kafka)
        if parts.traffic is not None:
            parts.traffic.start(lambda: self.readiness()[0])

    async def _serve(self, web: Any) -> None:
        await self.ports.serve(web, lambda: self.readiness()[0], self._parts.settings.kafka_wait_s)
        if self._seat is not None:
            self._seat.started()

    def _watch_ended(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (problem := watching.exception()) is not None:
            self.crashed(problem)  # a token that is removed from now on would still be good

    def _show_topics(self) -> None:
        """Show the partitions of every channel in the metrics, also before the first event, and drop removed ones."""
        parts = self._parts
        channels = parts.contract.channels.values()
        topics = {channel.topic: channel.partitions for channel in channels}
        existing = topics.keys() | {channel.dlq_topic for channel in channels}
        for topic in self._metric_topics - existing:
            parts.metrics.unserved(topic)
        if parts.settings.role in ("all", "ingress"):
            for topic, partitions in topics.items():
                parts.metrics.serves(topic, partitions)
        self._metric_topics = existing

    async def _internal_topics(self) -> None:
        """Create the contract and status topics if they do not exist; any role may be the first to start."""
        parts = self._parts
        until = time.monotonic() + parts.settings.kafka_wait_s
        while True:
            try:
                await ensure_internal_topics(parts.controller_config)
                return
            except KafkaFailed as problem:
                if time.monotonic() > until:
                    log.error("internal topics cannot be created", reason=str(problem))
                    os._exit(ExitCode.NOT_READY)
            await asyncio.sleep(0.5)

    # -- stop

    async def restart(self, web: Any) -> None:
        """Stop, and execute the command of this process again, unless `stop` is called meanwhile. `web`: as there."""
        if self._ending is None:  # else it stops already, and its ports close
            self.ports.pass_on()
        await self._ended(web)

    async def stop(self, web: Any) -> None:
        """Stop all parts in order; called before Faust stops anything. `web`: the ingress server."""
        self.ports.keep()
        if self.parts is not None:
            await self._ended(web)

    async def _ended(self, web: Any) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(web))
        await asyncio.wait({self._ending})
        self._ending.result()

    async def _end(self, web: Any) -> None:
        self.draining = True
        parts = self._parts
        drain_s = parts.settings.drain_s
        log.info("draining", limit_s=drain_s)
        # Faust's own stop, after this one, has no limit. At a restart, ingress drains after the supervisor.
        drains = 2 if self.ports.are_passed_on else 1
        self._watchdog.end_within(drains * drain_s + _STOP_S)
        # At a stop, ingress and the supervisor drain at the same time and have one limit. The tables stay until both
        # are done: requests in flight need the contract. The producer is the last of the parts that send: replies, dead
        # letters, the goodbye on the status topic and the last traffic deltas go through it.
        ingress = None if self.ports.are_passed_on else asyncio.create_task(web.drain(drain_s))
        console = None if parts.admin is None else asyncio.create_task(parts.admin.leave())
        if parts.traffic is not None:
            parts.traffic.leave()
        if parts.supervisor is not None:
            await parts.supervisor.stop(drain_s)
        for part in (parts.dlq_sizes, parts.outage, parts.controller):
            if part is not None:
                await part.stop()
        if parts.traffic is not None:
            await parts.traffic.left()
        ingress = ingress or asyncio.create_task(web.drain(drain_s, hands_over=self.ports.are_passed_on))
        await asyncio.wait({ingress}, timeout=drain_s + 5)
        if self._publisher is not None and self._status is not None:
            # First: a status after the goodbye would show this worker as serving for ten seconds.
            self._publisher.cancel()
            self._status.goodbye()
        if parts.traffic is not None:
            parts.traffic.stop()
        if parts.secrets is not None:
            await parts.secrets.stop()
        if console is not None:
            await asyncio.wait({console})  # the ends of redrives and seeks go to the audit topic
        await parts.producer.stop(5.0)
        if parts.spans is not None:
            await parts.spans.stop(GLANCE_S)
        if self.ports.are_passed_on:
            log.info("worker executes its command again" if self._seat is None else "worker has handed over")
            self.ports.execute_again()
        await asyncio.gather(parts.contract.stop(), parts.status.stop())
        for watching in self._watching:
            watching.cancel()
        if parts.admin is not None:
            await parts.admin.stop(1.0)
        log.info("worker stopped")
        self._watchdog.end_within(_GONE_S, code=0)  # a thread that Faust left behind must not keep the process alive

    def crashed(self, problem: BaseException) -> None:
        """A task or thread that must run has failed: end the process at once, and without commits.

        After such a failure the state in memory may be wrong, and a commit of it could skip events.
        """
        log.critical("the worker cannot continue", exc_info=(type(problem), problem, problem.__traceback__))
        os._exit(ExitCode.FAILED)

    # -- for the health pages

    def alive(self) -> tuple[bool, Mapping[str, Any]]:
        """Returns whether the process is alive, and fields for `/healthz`.

        An answer shows that the loop runs, and a part that fails ends the process. What is left to check: the thread
        of a consumer may hang in a call, so its poll age counts.
        """
        supervisor = None if self.parts is None else self.parts.supervisor
        poll_age_s = 0.0 if supervisor is None else supervisor.poll_age_s()
        details = {"loop_lag_s": round(self._watchdog.lag_s, 3), "consumers_still_s": round(poll_age_s, 1)}
        return supervisor is None or poll_age_s < supervisor.max_poll_interval_s, details

    def readiness(self) -> tuple[bool, Mapping[str, Any]]:
        """Returns whether the worker is ready (see the module), and fields for `/readyz`; `kafka` decides nothing."""
        parts = self._parts
        conditions = {
            "contract": parts.contract.loaded and not parts.contract.problem,
            "producer": parts.producer.ever_connected,
            "draining": self.draining,
        }
        if parts.secrets is not None and not parts.secrets.tried:
            conditions["secrets"] = False
        ready = all(conditions[name] for name in conditions if name != "draining") and not self.draining
        fields: dict[str, Any] = {**conditions, "kafka": "up" if parts.producer.connected else "down"}
        if parts.unused is not None:  # why is not for senders
            fields["changes"] = "not used"
        if parts.contract.problem:
            fields["problem"] = parts.contract.problem
        if parts.contract.unsupported:
            fields["unsupported"] = parts.contract.unsupported_text
        troubles = parts.controller.troubles() if parts.controller is not None else []
        if troubles:
            fields["api_server"] = [
                {
                    "what": trouble.what,
                    "object": trouble.object,
                    "since": timefmt.in_seconds(trouble.since),
                    "why": trouble.why,
                }
                for trouble in troubles[:20]
            ]
        # Other roles take events in or deliver them, and need no API server for that.
        stopped = parts.settings.role == "controller" and any(trouble.stops for trouble in troubles)
        return ready and not stopped, fields

    def subscriber_details(self, namespace: str, channel: str) -> list[SubscriberDetails] | None:
        """Returns the `status.subscribers` of a channel, over all workers, with details of each subscription: owner,
        lag, last error. None = there is no such channel."""
        parts = self._parts
        record = named_channel(parts.contract.channels.values(), namespace, channel)
        if record is None:
            return None
        now = time.time()
        every = parts.contract.subscriptions.values()
        mine = [each for each in every if each.channel_uid == record.uid and not each.unlisted]
        workers = list(parts.status.workers.values())
        return [subscriber_details(subscription, workers, now) for subscription in sorted(mine, key=lambda s: s.label)]

    def _loop_lagged(self, seconds: float) -> None:
        if self.parts is not None:
            self.parts.metrics.loop_lag.add(seconds)

    def status_changed(self, uid: str) -> None:
        """Owned partitions or the state of this subscription have changed."""
        if self._status is not None:
            self._status.changed(uid)

    async def _publish_status(self, publisher: StatusPublisher) -> None:
        try:
            await publisher.run()
        except Exception as problem:
            self.crashed(problem)

    @property
    def _parts(self) -> Parts:
        assert self.parts is not None, "the worker is not composed yet"
        return self.parts


@contextmanager
def _ending_for_usage() -> Iterator[None]:
    """End the process with the message of an error that a person can fix; Faust would show a traceback."""
    try:
        yield
    except PenstockError as problem:
        log.error(str(problem))
        os._exit(problem.exit_code)
