"""One Secret of Brokers in a worker: its folder is read and tried until Kafka accepts it, and then it is used.

    folder appears or changes -> valid? -> does Kafka accept it? -> `own`: a producer of its own, and Kafka's settings
                                   | no            | no
                                   +---------------+--> `problem`, and it is tried again later

Its Brokers wait for that, and the process serves all others. What changes later is tried by `app/worker/renewal`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog
from confluent_kafka import KafkaException

from agents.dispatch.context import OwnKafka
from app.worker.producer.kafka_producer import KafkaProducer
from knative.backoff import doubling_s
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem, is_reference
from tables.file_signatures import Signature, signature
from tables.kafka.acceptance import refused
from tables.kafka.connection.broker_secrets import Found, read_broker_secret
from tables.kafka.connection.secret import paths
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotFound
from tables.kafka.loop_thread import call_in_thread

log = structlog.get_logger(__name__)

EVERY_S = 1.0
AGAIN_S = (1.0, 15.0)  #: between two tries of the same files
TRY_LIMIT_S = 60.0


class _Denied:
    """The topics that a user may not describe, and why."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}

    def add(self, topic: str, problem: KafkaFailed) -> None:
        """A topic could not be described; one that does not exist is left out."""
        if isinstance(problem, KafkaDenied):
            self.topics[topic] = str(problem)
        elif not isinstance(problem, KafkaNotFound):
            raise problem


MakeProducer = Callable[[Mapping[str, Any], str], KafkaProducer]  #: from Kafka's settings and the Secret's reference


class BrokerSecret:
    """Event loop only, but for `refusal`. `run` it in a task; `stop` it when that has ended."""

    def __init__(
        self,
        reference: str,
        root: Path | None,
        others: Mapping[str, Any],
        make_producer: MakeProducer,
        changed: Callable[[], None],
    ) -> None:
        """`root`: the folder of PENSTOCK_KAFKA_SECRETS. `others`: settings that are not in the Secret."""
        self.reference = reference
        self.topics: Collection[str] = ()  #: of the Brokers that have it
        self.keys: Mapping[str, str] = {}  #: those that Kafka has accepted
        self.own: OwnKafka | None = None  #: once Kafka has accepted it
        self.problem = SecretProblem("", f"the Kafka secret {reference} has not been tried yet")  #: until then
        self.tried = False
        self.paths = paths(root / reference) if root is not None and is_reference(reference) else []
        self._root, self._others = root, others
        self._make_producer, self._changed = make_producer, changed
        self._producer: KafkaProducer | None = None
        self._seen: Signature | None = None
        self._waits_s: Iterator[float] = iter(())
        self._again_at = 0.0

    async def run(self) -> None:
        """Until it is used."""
        await self.look()
        while self.own is None:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Use the folder if it has changed, or if it is time to try again."""
        seen = signature(self.paths)
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._waits_s = seen, doubling_s(*AGAIN_S)
        elif now < self._again_at:
            return
        self._again_at = now + next(self._waits_s)
        try:
            found = await call_in_thread(self._read, TRY_LIMIT_S, f"secret-{self.reference}")
        except TimeoutError:
            found = SecretProblem("", f"the Kafka secret {self.reference} could not be tried: Kafka does not answer")
        if isinstance(found, SecretProblem):
            self._failed(found)
        elif signature(self.paths) == seen:  # else they have changed while they were read: the next look reads them
            try:
                await self._use(*found)
            except KafkaException as problem:  # this process must not end because of one Secret
                code = problem.args[0].name()  # more could show a value
                self._failed(SecretProblem(INVALID, f"the Kafka client rejects the secret {self.reference} ({code})"))

    def _read(self) -> Found | SecretProblem:
        """In a thread of its own."""
        found = read_broker_secret(self._root, self.reference, in_memory=True)
        if isinstance(found, SecretProblem):
            return found
        keys, settings = found
        whole = {**self._others, **settings}
        return self.refusal(whole) or (keys, whole)

    def refusal(self, kafka: Mapping[str, Any]) -> SecretProblem | None:
        """Why Kafka does not accept these settings, with keys of this Secret. Blocks."""
        topics, denied = tuple(self.topics), _Denied()
        refusal = refused(kafka, dict.fromkeys(topics, ()), denied.add)
        if refusal is not None:
            reason = "" if refusal.away else INVALID
            return SecretProblem(reason, f"the Kafka secret {self.reference} is not used: {refusal.why}")
        # A Secret of several Brokers must not fail all of them because of one whose ACLs are missing. But a change must
        # not take from a Broker what the present credentials may do.
        if denied.topics and self.own is not None:
            before = _Denied()
            refusal = refused(self.own.kafka, dict.fromkeys(denied.topics, ()), before.add)
            if refusal is not None and refusal.away:  # then nobody knows what the present ones may do
                return SecretProblem("", f"the Kafka secret {self.reference} is not used yet: {refusal.why}")
            if refusal is None and (lost := denied.topics.keys() - before.topics.keys()):
                why = denied.topics[min(lost)]
                return SecretProblem(INVALID, f"the Kafka secret {self.reference} is not used: {why}")
        for why in denied.topics.values():
            log.warning("a Broker's Kafka secret is used without a permission", reference=self.reference, reason=why)
        return None

    def _failed(self, problem: SecretProblem) -> None:
        self.tried = True
        if problem != self.problem:
            self.problem = problem
            write = log.error if problem.reason in (NOT_FOUND, INVALID) else log.warning
            write("a Broker's Kafka secret cannot be used", reference=self.reference, reason=problem.message)
            self._changed()

    async def _use(self, keys: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        producer = self._make_producer(settings, self.reference)
        await producer.start()
        self._producer = producer
        self.keys, self.own, self.tried = keys, OwnKafka(settings, producer), True
        log.info("a Broker's Kafka secret is used", reference=self.reference)
        self._changed()

    async def stop(self, limit_s: float) -> None:
        """Wait for the records that are out, then close the producer."""
        if self._producer is not None:
            await self._producer.stop(limit_s)
