"""A Faust app that follows one topic, commits only what is stored, and ends when it cannot go on.

Faust commits what it has passed to an agent, even if the agent failed or was cancelled. Here each commit is limited to
the records whose results are stored (`Progress.stored`), so a kill at any moment repeats some records and skips none.
`compute` and `results` differ only in where they store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import faust
import structlog
from aiokafka.errors import IllegalStateError
from faust.types import TP

from app.observability.logging import configure_logging
from app.settings.load import Settings
from app.timing import LOOK_S, SAY_S, SESSION_MIN_S
from examples.census.progress import Progress
from knative.errors import NotReadyError, PenstockError
from tables.faust_support import OffsetControlApp
from tables.kafka.admin.answers import TopicInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.connection.python_clients import broker_settings
from tables.timing import STORED_S
from web.http import registry
from web.http.config import DriverConfig

log = structlog.get_logger(__name__)

#: Key and value of a record -> place and words of its chunk. Raises ValueError if it has none.
Parse = Callable[[bytes | None, bytes | None], tuple[str, str]]
#: Stores (record, place, words), in order; returns when Kafka has acknowledged all of it.
Store = Callable[[Sequence[tuple[Any, str, str]]], Awaitable[None]]

_BATCH, _FLUSH_S = 500, 0.2  # records that are stored together: at most so many, after at most so long


class Worker(OffsetControlApp):
    """The app. `make_worker` sets what it follows."""

    logger = logging.getLogger("mode.census")
    driver_config = DriverConfig()
    followed: TopicInfo
    progress: Progress
    taken = 0  #: records that this process has stored, repeated ones among them

    @property
    def mine(self) -> list[TP]:
        """The partitions of the topic that this process has."""
        return [tp for tp in self.consumer.assignment() if tp.topic == self.followed.name]

    async def start_offsets(self, consumer: Any, committed: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns the committed ones, or the first that Kafka still has."""
        first = await consumer.earliest_offsets(*self.mine) if self.mine else {}
        starts = {tp: max(committed.get(tp) or 0, offset) for tp, offset in first.items()}
        self.progress.begin({tp.partition: offset for tp, offset in starts.items()})
        return starts

    def offsets_to_commit(self, offsets: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns those up to what is stored."""
        # Unknown counts as nothing stored, and 0 is not committed: what Faust proposes could skip records.
        safe = {tp: min(offset, self.progress.stored.get(tp.partition, 0)) for tp, offset in offsets.items()}
        return {tp: offset for tp, offset in safe.items() if offset > 0}

    def behind(self) -> int | None:
        """Returns the records of the topic that were not processed yet; None unless this process has all partitions."""
        if not len(self.mine) == len(self.progress.next) == len(self.followed.partitions):
            return None
        return sum(max(0, (self.consumer.highwater(tp) or 0) - self.progress.next[tp.partition]) for tp in self.mine)


def make_worker(
    settings: Settings, kafka: Mapping[str, Any], name: str, followed: TopicInfo, port: int | None = None
) -> Worker:
    """`kafka`: librdkafka client settings. `name`: of the consumer group. `port` None: without a web server."""
    registry.install()
    app = Worker(
        name,
        **broker_settings(kafka),
        web="httptools://",
        web_enabled=port is not None,
        web_bind=settings.bind,
        web_port=port or settings.http_port,
        web_router_enabled=False,
        web_tables_enabled=False,
        topic_disable_leader=True,
        topic_partitions=len(followed.partitions),
        topic_replication_factor=max(followed.replicas),
        store="memory://",
        broker_session_timeout=SESSION_MIN_S,
        broker_heartbeat_interval=SESSION_MIN_S / 4,
        broker_commit_interval=1.0,
        producer_acks=-1,
        producer_request_timeout=STORED_S,
        datadir=Path(tempfile.gettempdir()) / f"{name}-{os.getpid()}",
        logging_config=configure_logging(settings, name),
    )
    app.followed, app.progress = followed, Progress()
    return app


def run(app: Worker, parse: Parse, store: Store, admin: KafkaAdmin, topics: Sequence[TopicInfo]) -> None:
    """Store what the records of the topic give, until SIGTERM or Ctrl-C. When one of `topics` is deleted or created
    again the process ends: its offsets are those of the old topic."""
    # Raw bytes: a record that Faust cannot decode would end the stream without an error.
    raw: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}

    async def agent(stream: Any) -> None:
        async for events in stream.take_events(_BATCH, within=_FLUSH_S):
            generation, records = app.progress.generation, [event.message for event in events]
            records = [record for record in records if app.progress.take(record.partition, record.offset)]
            try:
                await store([(record, *parsed) for record in records if (parsed := _parsed(parse, record))])
            except asyncio.CancelledError:
                raise
            except Exception as problem:  # Faust would skip the events of an agent that raises
                crash(problem)
            app.progress.done(generation, ((record.partition, record.offset) for record in records))
            app.taken += len(records)

    async def go_back() -> None:
        for tp in [] if app.rebalancing or app.in_recovery else app.mine:
            offset = app.progress.overdue(tp.partition, app.consumer.highwater(tp) or 0, time.monotonic())
            if offset is None:
                continue
            log.warning("records do not come; reading them again", partition=tp.partition, offset=offset)
            with suppress(IllegalStateError):  # another process has the partition by now
                if (await app.consumer.earliest_offsets(tp))[tp] > offset:
                    crash(PenstockError(f"Kafka removed records of {tp.topic} before they were read.", "Start again."))
                await app.consumer.seek_wait({tp: offset})

    async def watch() -> None:
        try:
            present = await asyncio.to_thread(admin.describe_topics, [topic.name for topic in topics])
        except NotReadyError:
            return  # Kafka does not answer: look again later
        except PenstockError as problem:
            crash(problem)
        for topic in topics:
            if present[topic.name].id != topic.id:
                crash(PenstockError(f"The topic {topic.name} was created again.", "Start this command again."))

    app.agent(app.topic(app.followed.name, internal=True, partitions=len(app.followed.partitions), **raw))(agent)
    app.timer(LOOK_S)(go_back)
    app.timer(SAY_S)(watch)
    worker = faust.Worker(app, loglevel="WARNING", redirect_stdouts=False, quiet=True)
    worker.spinner = None  # it would write to the terminal
    worker.execute_from_commandline()


def _parsed(parse: Parse, record: Any) -> tuple[str, str] | None:
    try:
        return parse(record.key, record.value)
    except ValueError as problem:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        log.warning("a record that is not of the census is skipped", record=where, reason=str(problem))
        return None


def crash(problem: BaseException) -> NoReturn:
    """End the process at once. Stored results are safe; the next member of the group repeats the rest."""
    log.critical("the process ends", exc_info=None if isinstance(problem, PenstockError) else problem,
                 reason=str(problem) or type(problem).__name__)  # fmt: skip
    os._exit(1)
