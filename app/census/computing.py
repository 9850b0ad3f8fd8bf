"""`compute`: runs the counting function with Spark, or with a Faust worker in a consumer group.

Both store their offsets under the ids of both topics, so a topic that was created again is computed from its beginning.
When a topic is deleted meanwhile, the command ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from analytics.census.spark import SparkConfig, explained, start
from app.census import faust_engine
from app.census.choices import WriteTo
from app.census.faust_app import AppOptions, crash, make_app, run, watch_topics
from app.census.metrics import COMPUTE_READ, RESULTS_WRITTEN, CensusMetrics
from app.census.sinks import Sink
from app.census.topics import TOPICS_EVERY_S, Topic, Topics
from app.settings.load import Settings
from knative.errors import NotReadyError, PenstockError, os_reason
from tables.timing import SPARING_S, STORED_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class ComputeRole:
    """What is computed, and how. `results` None: results go to `sink` instead of a topic."""

    kafka: Mapping[str, Any]  #: librdkafka client settings
    compute: Topic
    results: Topic | None
    sink: Sink
    write_to: WriteTo
    delay_s: float = 0.0
    once: bool = False
    chunks_max: int | None = None
    say: Callable[[str], None] = lambda _: None

    @property
    def ids(self) -> str:
        """For names of groups and folders."""
        # Without a results topic (a dry run) no offsets are kept: each process has a name of its own.
        return f"{self.compute.short_id}-{self.results.short_id if self.results else f'look-{os.getpid()}'}"

    @property
    def watched(self) -> dict[str, str]:
        """Topic -> id."""
        return {topic.name: topic.id for topic in (self.compute, self.results) if topic is not None}


def checkpoint_of(folder: Path, role: ComputeRole) -> Path:
    """The folder in which Spark keeps its offsets for these two topics."""
    return folder / role.ids


def with_spark(
    session: AbstractContextManager[SparkSession], role: ComputeRole, checkpoint: Path, metrics: CensusMetrics
) -> int:
    """Run until the work is done (`once`, `chunks_max`), SIGTERM or Ctrl-C. Returns the number of chunks. Raises
    PenstockError."""

    def take(records: list[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            role.sink.put(key, value, ())

    # With a limit only the first batch counts: the query is stopped before the next one would begin.
    limits: dict[str, Any] = {} if role.chunks_max is None else {"chunks_max": role.chunks_max, "every_s": 10.0}
    _writable(checkpoint)
    config = SparkConfig(
        kafka=role.kafka,
        compute_topic=role.compute.name,
        results_topic=role.results.name if role.results else "",
        checkpoint=checkpoint,
        once=role.once and role.chunks_max is None,
        delay_s=role.delay_s,
        take=None if role.results else take,
        **limits,
    )
    with session as spark, _stopped_by_signals() as stop:
        role.say("Spark runs.")
        try:
            query = start(spark, config)
            try:
                return _watch(query, role, metrics, stop)
            finally:
                with suppress(Exception):  # the query has failed or the JVM has ended: the first error counts
                    query.stop()
        except (PenstockError, KeyboardInterrupt):
            raise
        except Exception as problem:
            if stop.is_set():  # the signal has also reached the JVM, and caused this error
                raise KeyboardInterrupt from problem
            raise explained(problem, config) from problem


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Handle Ctrl-C and SIGTERM between two calls to Spark. A second signal ends the process at once.

    Spark's own handler would call the JVM in the middle of another call, and break the connection for both.
    """
    stop = threading.Event()

    def hear(number: int, _frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        stop.set()

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _writable(checkpoint: Path) -> None:
    """Raises PenstockError when the folder cannot be written, before Spark takes its seconds to start."""
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=checkpoint):
            pass
    except OSError as problem:
        raise PenstockError(
            f"The checkpoint {checkpoint} cannot be written ({os_reason(problem)}).",
            "Fix its permissions, or name another folder: --checkpoint DIR.",
        ) from problem


def _watch(query: StreamingQuery, role: ComputeRole, metrics: CensusMetrics, stop: threading.Event) -> int:
    """Count the progress of the query until it ends. Raises its error, and KeyboardInterrupt after `stop`."""
    topics = Topics(role.kafka)
    last, seen, check_at = -1, 0, time.monotonic() + TOPICS_EVERY_S
    while True:
        limit: Any = SPARING_S  # declared as int, but fractions of a second work
        ended = bool(query.awaitTermination(limit))  # raises the error of the query
        for progress in query.recentProgress:
            if progress["batchId"] > last:
                last = progress["batchId"]
                count = int(progress["numInputRows"])
                seen += count
                metrics.add(COMPUTE_READ, count)
                metrics.add(RESULTS_WRITTEN, count if role.results else 0)
                if count:
                    role.say(f"Batch {last}: {count} chunks, {progress['processedRowsPerSecond']:.0f}/s")
        if ended:
            return seen
        if stop.is_set():
            raise KeyboardInterrupt
        if role.chunks_max is not None and (seen or (role.once and last >= 0)):
            return seen
        if time.monotonic() > check_at:
            check_at = time.monotonic() + TOPICS_EVERY_S
            _same_topics(topics, role)


def _same_topics(topics: Topics, role: ComputeRole) -> None:
    with suppress(NotReadyError):  # Kafka is unreachable: check again later
        for topic in topics.describe(list(role.watched)):
            if topic.id != role.watched[topic.name]:
                raise PenstockError(f"The topic {topic.name} was created again.", "Start this command again.")


def with_faust(settings: Settings, role: ComputeRole, metrics: CensusMetrics, started: Callable[[], None]) -> NoReturn:
    """Run as one member of the group until SIGTERM or Ctrl-C."""
    name = f"{settings.instance}-census-compute-{role.ids}"
    app = make_app(settings, AppOptions(name, role.kafka, f"census-compute-{os.getpid()}", settings.bind), role.compute)
    store = _store_in_topic(app, role.results.name, role.say) if role.results else _store_in_sink(role)
    config = faust_engine.FaustConfig(role.compute.name, role.compute.partitions, delay_s=role.delay_s)
    compute = faust_engine.register(app, config, store, crash)
    app.follower = compute
    watch_topics(app, Topics(role.kafka), role.watched)

    async def count() -> None:
        metrics.add(COMPUTE_READ, compute.read - metrics.counts[COMPUTE_READ])
        if role.results:
            metrics.add(RESULTS_WRITTEN, compute.written - metrics.counts[RESULTS_WRITTEN])

    app.timer(SPARING_S)(count)
    run(app, started)


def _store_in_topic(app: Any, topic: str, say: Callable[[str], None]) -> Any:
    async def store(records: Sequence[tuple[bytes, bytes]]) -> None:
        sent = [await app.producer.send(topic, key, value, None, None, None) for key, value in records]
        if sent:
            async with asyncio.timeout(STORED_S):
                await asyncio.gather(*sent)
            say(f"{len(sent)} chunks")

    return store


def _store_in_sink(role: ComputeRole) -> Any:
    async def store(records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            role.sink.put(key, value, ())

    return store
