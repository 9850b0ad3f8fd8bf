"""A Faust app that reads one topic from offsets of its own, and commits only what is stored.

    after a rebalance (and a table's recovery)   consumer: "where to continue?"  -> follower.begin(committed, earliest)
    at each of Faust's commits                   consumer: "how far is stored?"  -> follower.storable(partition)

Faust proposes an offset, and the follower limits it to what is stored. So an agent that failed, was cancelled or
finished out of order never commits anything that is not stored. `tables/faust_support` has the internals of Faust
that this needs; tests that kill processes cover it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import faust
import structlog
from aiokafka.errors import IllegalStateError
from faust.types import TP

from analytics.census.offset_sequence import OffsetGapError, Succession
from app.census.topics import TOPICS_EVERY_S, Topic, Topics
from app.observability.logging import configure_logging
from app.settings.load import Settings
from app.timing import LOOK_S, SESSION_MIN_S
from knative.errors import PenstockError
from tables.faust_support import OffsetControlApp
from tables.kafka.connection.python_clients import broker_settings
from tables.timing import STORED_S
from web.http import registry
from web.http.config import DriverConfig

log = structlog.get_logger(__name__)


class Follower(Protocol):
    """Processes the records, and knows which results are stored."""

    succession: Succession  #: of the records that it has processed

    def begin(self, committed: Mapping[int, int | None], earliest: Mapping[int, int]) -> Mapping[int, int]: ...
    def storable(self, partition: int) -> int | None: ...


class FollowingApp(OffsetControlApp):
    """`followed` and `follower` are set before it starts."""

    followed: Topic
    follower: Follower
    driver_config: DriverConfig
    logger = logging.getLogger("mode.census")

    async def start_offsets(self, consumer: Any, committed: Mapping[TP, int]) -> Mapping[TP, int]:
        """Those of the follower, for its topic."""
        mine = [tp for tp in consumer.assignment() if tp.topic == self.followed.name]
        if not mine:
            return {}
        offsets = {tp.partition: committed.get(tp) for tp in mine}
        known = {number: offset if offset is not None and offset >= 0 else None for number, offset in offsets.items()}
        earliest = {tp.partition: offset for tp, offset in (await consumer.earliest_offsets(*mine)).items()}
        starts = self.follower.begin(known, earliest)
        return {TP(self.followed.name, number): offset for number, offset in starts.items()}

    def offsets_to_commit(self, offsets: Mapping[TP, int]) -> Mapping[TP, int]:
        """Not beyond what the follower has stored."""
        # Unknown counts as nothing stored, and 0 is not committed: what Faust proposes could skip records.
        stored = {tp: self.follower.storable(tp.partition) or 0 for tp in offsets if tp.topic == self.followed.name}
        safe = {tp: min(offset, stored.get(tp, offset)) for tp, offset in offsets.items()}
        return {tp: offset for tp, offset in safe.items() if offset > 0}

    def in_order(self, events: Sequence[Any], torn: set[int]) -> Iterator[Any]:
        """The messages of a batch that the follower processes now. Where records are missing, adds the partition to
        `torn` and leaves out the rest of it: `read_torn` reads all of that again."""
        for message in (event.message for event in events):
            # Records of an earlier assignment are read again too.
            if message.partition in torn or message.generation_id not in (None, self.consumer_generation_id):
                continue
            try:
                if self.follower.succession.take(message.partition, message.offset):
                    yield message
            except OffsetGapError:
                torn.add(message.partition)

    async def read_torn(self, torn: Collection[int]) -> None:
        """Go back to the missing records of these partitions. Raises OffsetGapError when they do not come."""
        for partition in torn:
            offset = self.follower.succession.again(partition, time.monotonic())
            if offset is not None:
                log.warning("records are missing; reading them again", partition=partition, offset=offset)
                await self.read_again(partition, offset)

    async def read_again(self, partition: int, offset: int) -> None:
        """Go back to this offset of the followed topic, unless another process has the partition by now."""
        with suppress(IllegalStateError):
            await self.consumer.seek_wait({TP(self.followed.name, partition): offset})


@dataclass(frozen=True, slots=True)
class AppOptions:
    """The names of one app, and where it listens; `port` 0 = it has no web server."""

    name: str
    kafka: Mapping[str, Any]  #: librdkafka client settings
    worker: str
    bind: str
    port: int = 0


def make_app(settings: Settings, options: AppOptions, followed: Topic) -> FollowingApp:
    """A Faust app for one topic, without agents and pages."""
    registry.install()
    app = FollowingApp(
        options.name,
        **broker_settings(options.kafka),
        web="httptools://",
        web_enabled=bool(options.port),
        web_bind=options.bind,
        web_port=options.port or settings.http_port,
        web_router_enabled=False,
        web_tables_enabled=False,
        topic_disable_leader=True,
        topic_partitions=followed.partitions,
        topic_replication_factor=followed.replicas,
        topic_allow_declare=True,
        autodiscover=False,
        store="memory://",
        value_serializer="json",
        broker_session_timeout=SESSION_MIN_S,
        broker_heartbeat_interval=SESSION_MIN_S / 4,
        broker_commit_interval=1.0,
        producer_acks=-1,
        producer_request_timeout=STORED_S,
        datadir=Path(tempfile.gettempdir()) / f"{options.name}-{os.getpid()}",
        logging_config=configure_logging(settings, options.worker),
        worker_redirect_stdouts=False,
    )
    app.driver_config = DriverConfig()
    app.followed = followed
    _read_overdue_again(app)
    return app


def watch_topics(app: FollowingApp, topics: Topics, wanted: Mapping[str, str]) -> None:
    """End the process when one of these topics (name -> id) is deleted or created again: its offsets are those of the
    old topic."""

    async def check() -> None:
        try:
            found = await asyncio.to_thread(topics.describe, list(wanted))
        except PenstockError as problem:
            if (
                problem.exit_code == 1
            ):  # the topic does not exist; other errors: Kafka is unreachable, check again later
                crash(problem)
            return
        for topic in found:
            if topic.id != wanted[topic.name]:
                crash(PenstockError(f"The topic {topic.name} was created again.", "Start this command again."))

    app.timer(TOPICS_EVERY_S)(check)


def _read_overdue_again(app: FollowingApp) -> None:
    """Go back to records that are stored but do not come. Faust drops some now and then when it begins to read, or
    reads again; without another record after them, nobody would notice."""

    async def check() -> None:
        if app.rebalancing or app.in_recovery:
            return  # after it, reading begins at the stored offsets
        mine = [tp for tp in app.consumer.assignment() if tp.topic == app.followed.name]
        ends = {tp.partition: app.consumer.highwater(tp) or 0 for tp in mine}
        for partition, end in ends.items():
            offset = app.follower.succession.overdue(partition, end, time.monotonic())
            if offset is not None:
                log.warning("stored records do not come; reading them again", partition=partition, offset=offset)
                await app.read_again(partition, offset)

    app.timer(LOOK_S)(check)


def crash(problem: BaseException) -> NoReturn:
    """End the process at once. Stored results are safe; the next member of the group repeats the rest."""
    log.critical("the process ends", exc_info=None if isinstance(problem, PenstockError) else problem,
                 reason=str(problem) or type(problem).__name__)  # fmt: skip
    os._exit(1)


def run(app: FollowingApp, started: Callable[[], None]) -> NoReturn:
    """Run until SIGTERM or Ctrl-C, then end the process."""

    async def report() -> None:
        started()

    app.task(report)
    worker = faust.Worker(app, loglevel="WARNING", redirect_stdouts=False, quiet=True)
    worker.spinner = None  # it would write to the terminal
    worker.execute_from_commandline()
    raise SystemExit(0)
