"""One Secret of Brokers while a worker runs: its folder is read, tried and, once Kafka accepts it, used.

    folder appears or changes -> valid? -> does Kafka accept it? -> `kafka` is replaced -> the first time: a producer
                                   | no            | no                                  -> else: clients are made again
                                   +---------------+--> `problem`, if it was never accepted; else the former credentials
                                                        stay in use, and the log says why

The same rules as for the Secret of the installation (`app/worker/secrets/kafka_secret`), but a process runs without it.
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
from app.worker.secrets.kafka_secret import refused
from knative.backoff import doubling_s
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem, is_reference
from tables.file_signatures import Signature, signature
from tables.kafka.connection.broker_secrets import Found, read_broker_secret
from tables.kafka.connection.live_settings import LiveSettings, present
from tables.kafka.connection.secret import paths
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotFound
from tables.kafka.loop_thread import call_in_thread

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
_AGAIN_S = (1.0, 15.0)  # between two tries of the same files
_TRY_LIMIT_S = 60.0


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
    """Event loop only. `run` it in a task; `stop` it when that has ended."""

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
        self.own: OwnKafka | None = None  #: once Kafka has accepted it
        self.problem = SecretProblem("", f"the Kafka secret {reference} has not been tried yet")  #: until then
        self.tried = False
        self._root, self._others = root, others
        self._make_producer, self._changed = make_producer, changed
        self._kafka = LiveSettings()
        self._producer: KafkaProducer | None = None
        self._paths = paths(root / reference) if root is not None and is_reference(reference) else []
        self._keys: Mapping[str, str] = {}
        self._seen: Signature | None = None
        self._trouble = ""
        self._waits_s: Iterator[float] = iter(())
        self._again_at = 0.0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Use the folder if it has changed, or if it could not be used and it is time to try again."""
        seen = signature(self._paths)
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._waits_s = seen, doubling_s(*_AGAIN_S)
        elif not self._trouble or now < self._again_at:
            return
        self._again_at = now + next(self._waits_s)
        try:
            found = await call_in_thread(self._read, _TRY_LIMIT_S, f"secret-{self.reference}")
        except TimeoutError:
            found = SecretProblem("", f"the Kafka secret {self.reference} could not be tried: Kafka does not answer")
        if isinstance(found, SecretProblem):
            self._failed(found)
        elif signature(self._paths) == seen:  # else they have changed while they were read: the next look reads them
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
        if keys == self._keys:
            return keys, whole
        denied = _Denied()
        refusal = refused(whole, dict.fromkeys(self.topics, ()), denied.add)
        if refusal is not None:
            reason = "" if refusal.away else INVALID
            return SecretProblem(reason, f"the Kafka secret {self.reference} is not used: {refusal.why}")
        # A Secret of several Brokers must not fail all of them because of one whose ACLs are missing. But a change must
        # not take from a Broker what the former credentials may do.
        if denied.topics and self._keys:
            before = _Denied()
            refusal = refused(present(self._kafka), dict.fromkeys(denied.topics, ()), before.add)
            if refusal is not None and refusal.away:  # then nobody knows what the former ones may do
                return SecretProblem("", f"the Kafka secret {self.reference} is not used yet: {refusal.why}")
            if refusal is None and (lost := denied.topics.keys() - before.topics.keys()):
                why = denied.topics[min(lost)]
                return SecretProblem(INVALID, f"the Kafka secret {self.reference} is not used: {why}")
        for why in denied.topics.values():
            log.warning("a Broker's Kafka secret is used without a permission", reference=self.reference, reason=why)
        return keys, whole

    def _failed(self, problem: SecretProblem) -> None:
        self.tried = True
        if problem.message != self._trouble:
            self._trouble = problem.message
            if self.own is not None:
                log.error("changed files are not used", what=f"secret {self.reference}", reason=problem.message)
            else:
                write = log.error if problem.reason in (NOT_FOUND, INVALID) else log.warning
                write("a Broker's Kafka secret cannot be used", reference=self.reference, reason=problem.message)
        if self.own is None and problem != self.problem:
            self.problem = problem
            self._changed()

    async def _use(self, keys: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        names = sorted(name for name in keys.keys() | self._keys.keys() if keys.get(name) != self._keys.get(name))
        self._trouble = ""
        if names:
            former, self._keys = self._keys, keys
            self._kafka.replace(settings)
            if former:
                log.info(
                    "Kafka credentials changed: every client is made again and uses them",
                    reference=self.reference,
                    keys=names,
                )
        if self.own is None:
            producer = self._make_producer(self._kafka, self.reference)
            await producer.start()
            self._producer = producer
            self.own = OwnKafka(self._kafka, producer)
            self.tried = True
            log.info("a Broker's Kafka secret is used", reference=self.reference)
            self._changed()

    async def stop(self, limit_s: float) -> None:
        """Wait for the records that are out, then close the producer."""
        if self._producer is not None:
            await self._producer.stop(limit_s)
