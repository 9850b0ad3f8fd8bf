"""The Kafka producer of a process: acks=all, idempotent, Java's partitioner, acknowledgements on the event loop.

    few records out:   send() -> librdkafka             poll thread: flush -> acks -> deque -> one wake-up of the loop
    many:              send() -> gathered -> librdkafka     event loop: a tick every millisecond -> poll -> acks

Linger adapts. While few records are out, librdkafka gets each at once, and sends it at once. From a dozen on, records
gather here for up to `linger_ms` and are handed over together, so that they share requests and wake librdkafka's thread
once instead of once for each partition. Then the event loop also takes the acknowledgements itself: passing a few at a
time between threads would cost two context switches each.

A fatal error (an idempotent producer can have one) makes a client unusable: every waiting record fails as unavailable,
and a new client replaces it; `app/worker/producer/client` has the states of a client. Any call can raise such an error:
the Python client does not call `error_cb` for it. Any other exception in the poll thread ends the process, because
acknowledgements would no longer arrive.

A client is also replaced when a record has waited for nearly the produce time-out. The former client gets a short
grace period for healthy partitions; then the rest fails. librdkafka's own time-out must not be reached: after it the
client continues under a new epoch, and Kafka would store a second time what was sent to other partitions and not yet
acknowledged.

A new client takes over as well when the epoch is high, which each rejected record raises: after 32,767 it starts again
at 0, and Kafka would take a new record for one that it has. The former client sends what it has.

A broker rejects a batch that is too large as a whole, and librdkafka fails every record in it. Each of them is sent
again by itself (`app/worker/producer/one_by_one`). Does not retry otherwise: librdkafka retries, in order, until the
produce time-out, and then the sender decides.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial
from threading import get_ident
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.worker.producer.ages import Identity, StoredAgain, identity_of
from app.worker.producer.client import ClientState, ProducerClient, purge_all
from app.worker.producer.config import TOO_LARGE, ProducerConfig, failure, is_fatal
from app.worker.producer.one_by_one import OneByOne
from knative.ports import Headers, Observe, ProduceFailure, ProduceProblem, Stored
from tables.kafka.acknowledged import not_stored
from tables.kafka.loop_thread import call_soon

log = structlog.get_logger(__name__)

_FEW = 12  # records out below which nothing lingers
_PROBE_S = 1.0
_TICK_S = 0.001
_LEFT_ALONE_S = 0.1  # how long the poll thread waits between checks while the loop polls
_QUIET_TICKS = 50  # ticks with few records out until the poll thread takes over again
_RETIRING_POLL_S = 0.02
_RETRIED_S = 0.1  # librdkafka's shortest wait before it sends a record again


class Poller(Enum):
    """Who takes the acknowledgements. Only the event loop changes it."""

    THREAD = "the poll thread: few records are out, and each is sent at once"
    LOOP = "the event loop, in ticks: a dozen records are out, or were a moment ago"


_THREAD, _LOOP = Poller  # looking members up takes longer
_FAILED = ClientState.FAILED
#: The arguments of `send`, with the partition last.
_Gathered = tuple[str, bytes | None, bytes | None, Headers, Stored, int]


class KafkaProducer:
    """`Produce` on librdkafka. Call `start` first and `stop` last; all other methods on the event loop."""

    def __init__(
        self, config: ProducerConfig, observe: Observe, crashed: Callable[[BaseException], None] | None = None
    ) -> None:
        """`crashed` is called once, on the event loop, when the poll thread has failed; it must end the process."""
        self.config = config
        self._crashed = crashed
        self.connected = False
        self.ever_connected = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: ProducerClient | None = None  # the one that takes new records
        self._observe = observe
        self._produced = observe.produced
        self._one_by_one = OneByOne(self._make_single)
        self._acks: deque[tuple[Stored, Headers, list[int], KafkaError | None, Message]] = deque()
        self._ack_wake_up_sent = False
        self._outstanding = 0
        self._poller = _THREAD
        self._quiet_ticks = 0  # ticks in a row with few records out
        self._gathered: list[_Gathered] = []  # handed over together; none while the poll thread is the poller
        self._gather_ticks = config.linger_ms  # a tick is a millisecond
        self._ticks = 0  # since the last hand-over
        self._work = threading.Event()
        self._resting = False  # the poll thread sleeps until `_work` is set; only that thread changes it
        self._stopping = False
        self._stored_again = StoredAgain(time.monotonic())
        self._used_up = False  # the client has had nearly all of its epochs
        self._former: list[ProducerClient] = []  # replaced, and not closed yet
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Build the client and start its poll thread. It connects in the background; see `connected`."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        self._later = self._loop.call_later
        self._client = await asyncio.to_thread(self._build)  # takes up to 55 ms
        self._thread = threading.Thread(target=self._run, name="kafka-producer", daemon=True)
        self._thread.start()

    async def stop(self, limit_s: float) -> None:
        """Wait up to `limit_s` for outstanding records, then close; the remaining ones fail as unavailable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        # Polls, once in the life of a process: an asyncio event would have to be set on the hot path.
        while self._outstanding and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._stopping = True
        self._work.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)
        self._hand_over()
        clients = [client for client in (self._client, *self._former) if client is not None]
        if self._outstanding:
            purge_all(clients)
            self._drain_acks()
        await self._one_by_one.stop(max(0.0, end - loop.time()))
        self._client, self._former = None, []
        await asyncio.to_thread(clients.clear)  # destroys them, which may take as long as building them

    def _build(self) -> ProducerClient:
        now_s = time.monotonic()
        self._stored_again = again = StoredAgain(now_s)
        self._used_up = False
        callbacks = {"error_cb": partial(self._on_error, again), "stats_cb": partial(self._on_statistics, again)}
        return ProducerClient(Producer({**self.config.client(), **callbacks}), self.config.timeout_s, now_s)

    def _make_single(self) -> KafkaProducer:
        config = replace(self.config, name=self.config.name + "-alone", batch_records_max=1)
        return KafkaProducer(config, self._observe, self._crashed)

    # -- event loop

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """See `Produce.send`."""
        if self._poller is not _THREAD and self._gather_ticks:
            self._gathered.append((topic, value, key, headers, done, partition))
            self._outstanding += 1
            return
        self._produce(topic, value, key, headers, done, partition)
        if self._outstanding >= _FEW and self._poller is _THREAD:
            self._poller = _LOOP
            self._quiet_ticks = self._ticks = 0
            self._later(_TICK_S, self._tick)
        elif self._resting:
            self._work.set()

    def _hand_over(self) -> None:
        """Pass the gathered records on. Never raises: an error of one caller must not affect the records after it."""
        self._ticks = 0
        gathered, self._gathered = self._gathered, []
        self._outstanding -= len(gathered)
        for record in gathered:
            try:
                self._produce(*record)
            except Exception:
                log.exception("the callback for a rejected record failed", topic=record[0])

    def _produce(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int
    ) -> None:
        client = self._client
        if client is None:
            done(ProduceFailure(ProduceProblem.UNAVAILABLE, "the producer is not started, or stopped"))
            return
        try:
            pairs: Any = headers if isinstance(headers, list) else list(headers)  # librdkafka takes nothing else
            generation = client.ages.generation
            acknowledged = partial(self._settle, done, pairs, generation)
            client.produce(topic, value, key, partition, on_delivery=acknowledged, headers=pairs)
        except BufferError:
            done(ProduceFailure(ProduceProblem.FULL, "the producer's queue is full"))
        except KafkaException as problem:
            error = problem.args[0]
            if is_fatal(error):
                client.fail(error.str())
                self._work.set()
            done(failure(error))
        else:
            self._outstanding += 1
            generation[0] += 1

    def _tick(self) -> None:
        """Hand records over, and take acknowledgements on the event loop under load: waking the loop from the poll
        thread for every few of them costs more than everything else on their way back."""
        self._ticks += 1
        if self._ticks >= self._gather_ticks:
            self._hand_over()
        try:
            acks = self._take_acks()
        except Exception as problem:  # ends the process, as it would in the poll thread
            self._end_ticks()
            if self._crashed is None:
                raise
            self._crashed(problem)
            return
        if self._outstanding >= _FEW or acks >= _FEW:
            self._quiet_ticks = 0
        else:
            self._quiet_ticks += 1
        failed = self._client is None or self._client.state is _FAILED
        if self._quiet_ticks < _QUIET_TICKS and not failed:
            self._later(_TICK_S, self._tick)
        else:
            self._end_ticks()

    def _take_acks(self) -> int:
        client = self._client
        if client is None:  # stopped meanwhile
            return 0
        try:
            return client.kafka.poll(0)
        except KafkaException as problem:
            self._failed(client, problem)
            return 0

    def _end_ticks(self) -> None:
        """Let the poll thread take acknowledgements again."""
        self._poller = _THREAD
        self._hand_over()
        self._work.set()

    def _drain_acks(self) -> None:
        self._ack_wake_up_sent = False
        acks = self._acks
        while acks:
            self._settle(*acks.popleft())

    def _settle(
        self, done: Stored, headers: Headers, generation: list[int], error: KafkaError | None, message: Message
    ) -> None:
        """Pass one acknowledgement on. librdkafka calls this in either thread. Never raises: an error of one caller
        must not affect the records after it."""
        if get_ident() != self._loop_thread:
            self._acks.append((done, headers, generation, error, message))
            if not self._ack_wake_up_sent:
                self._ack_wake_up_sent = True
                assert self._loop is not None
                call_soon(self._loop, self._drain_acks)
            return
        self._outstanding -= 1
        generation[0] -= 1
        try:
            if error is None and message.offset() is not None:  # as `not_stored` says, without a call
                if not self.connected:
                    self.connected = self.ever_connected = True
                done(None)  # before it is counted: no fault there leaves a sender without its answer
                latency_s = message.latency() or 0.0
                self._produced(message.topic() or "", message.partition() or 0, latency_s)
                if latency_s > _RETRIED_S:
                    self._late(message.topic() or "", latency_s)
            elif (problem := not_stored(error, message)) is not None:
                self._rejected(done, headers, problem, message)
        except Exception:
            log.exception("the callback for a stored record failed", topic=message.topic())

    def _rejected(self, done: Stored, headers: Headers, error: KafkaError, message: Message) -> None:
        if error.code() in TOO_LARGE and self.config.batch_records_max > 1:
            self._one_by_one.send(done, headers, message)
        else:
            done(failure(error))

    def _late(self, topic: str, latency_s: float) -> None:
        # Only a record that waited longer than a retry takes can have been sent twice: the hot path skips the rest.
        now_s = time.monotonic()
        if self._stored_again.acknowledged(topic, now_s - latency_s, now_s):
            self._observe.stored_again(topic, 1)

    # -- poll thread (and librdkafka's callbacks, which run in it)

    def _on_error(self, stored_again: StoredAgain, error: KafkaError) -> None:
        former = stored_again is not self._stored_again  # of a client that was replaced
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not former:
            if self.connected:
                log.warning("Kafka cannot be reached", brokers=self.config.kafka.get("bootstrap.servers"))
            self.connected = False

    def _on_statistics(self, stored_again: StoredAgain, statistics: str) -> None:
        """Called in either thread; passes the result to the event loop, which owns the counts."""
        assert self._loop is not None
        call_soon(self._loop, self._looked, stored_again, identity_of(statistics))

    def _looked(self, stored_again: StoredAgain, identity: Identity | None) -> None:
        if identity is not None and identity[1] >= self.config.epochs_max and stored_again is self._stored_again:
            self._used_up = True
        for topic, count in stored_again.looked(identity, time.monotonic()).items():
            self._observe.stored_again(topic, count)

    def _run(self) -> None:
        try:
            while not self._stopping:
                client = self._client
                assert client is not None
                self._wind_up()
                # One replacement for slowness at a time: a stuck partition makes the next client slow as well.
                slow = not self._former and client.too_slow(time.monotonic())
                if slow or self._used_up or client.state is _FAILED:
                    self._replace(client, slow=slow)
                else:
                    self._serve(client)
        except Exception as problem:
            assert self._loop is not None
            if self._crashed is None:
                raise
            call_soon(self._loop, self._crashed, problem)

    def _serve(self, client: ProducerClient) -> None:
        """One round of the poll thread: acknowledgements and errors."""
        try:
            if self._poller is _LOOP:
                self._work.clear()
                self._work.wait(_RETIRING_POLL_S if self._former else _LEFT_ALONE_S)
            elif len(client.kafka):
                client.kafka.flush(0.02)
            else:
                self._rest(client.kafka)
        except KafkaException as problem:
            self._failed(client, problem)
        finally:
            self._resting = False

    @staticmethod
    def _failed(client: ProducerClient, problem: KafkaException) -> None:
        """Handle what a poll raised: a fatal error makes the poll thread replace the client, others are raised."""
        if not is_fatal(problem.args[0]):
            raise problem
        client.fail(problem.args[0].str())

    def _rest(self, client: Producer) -> None:
        """No record is out: serve errors, and check whether Kafka is reachable again."""
        client.poll(0)
        self._work.clear()
        # Before `len` is asked: `send` queues first and looks here then, so one of the two sees the record.
        self._resting = True
        if not len(client) and not self._stopping:
            if self._former:
                self._work.wait(_RETIRING_POLL_S)
            elif self.connected:
                self._work.wait(1.0)
            else:
                self._probe(client)
        self._resting = False

    def _probe(self, client: Producer) -> None:
        try:
            client.list_topics(timeout=_PROBE_S)
        except KafkaException:
            self._work.wait(0.2)
        else:
            if self.ever_connected:
                log.info("Kafka is reachable again")
            self.connected = self.ever_connected = True

    def _replace(self, client: ProducerClient, *, slow: bool) -> None:
        """Build a new client. The former one keeps the records that it has."""
        if client.state is _FAILED:
            log.error("the producer had a fatal error and is replaced", reason=client.reason)
        elif slow:
            log.warning("Kafka has not acknowledged events: the producer is replaced", after_s=self.config.timeout_s)
        else:
            log.debug("the producer is replaced", reason="its epochs")
        time.sleep(client.rebuild_wait_s(time.monotonic()))  # records sent meanwhile to a FAILED client fail at once
        fresh = self._build()
        self._client = fresh  # one assignment: the event loop sends to the new client from here on
        client.replaced(time.monotonic(), slow=slow)
        self._former.append(client)

    def _wind_up(self) -> None:
        """Serve each client that was replaced until it is CLOSED."""
        if not self._former:
            return
        now_s = time.monotonic()
        for client in self._former:
            client.wind_up(now_s)
        self._former = [client for client in self._former if client.state is not ClientState.CLOSED]
