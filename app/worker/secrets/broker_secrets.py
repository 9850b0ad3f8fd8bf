"""The Secrets of Brokers: those that the contract refers to have clients of their own, once Kafka accepts them.

    contract --references--> folder is valid? --> does Kafka accept it? --> `own`: for ingress and supervisor
                                  | no               | no
                                  +------------------+--> `problem`; tried again, and all other Brokers go on

What changes in a Secret that is used, `app/worker/renewal` tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaException

from agents.dispatch.own_kafka import OwnKafka
from app.worker.producer.kafka_producer import KafkaProducer
from knative.backoff import doubling_s
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.contract.records import Channel, Subscription
from knative.ports import Produce
from tables.kafka.acceptance import refused
from tables.kafka.connection.broker_secrets import Found, read_broker_secret
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotFound
from tables.kafka.loop_thread import call_in_thread

log = structlog.get_logger(__name__)

AGAIN_S = (1.0, 15.0)  #: between two tries of the same files
TRY_LIMIT_S = 60.0
_STOP_S = 5.0

MakeProducer = Callable[[Mapping[str, Any], str], KafkaProducer]  #: from Kafka's settings and the Secret's reference


class Contract(Protocol):
    """What this needs of the contract."""

    @property
    def loaded(self) -> bool:
        """Whether the contract topic has been read to its end."""

    @property
    def channels(self) -> Mapping[str, Channel]:
        """By uid."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """By uid."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""


class BrokerSecret:
    """One of them. `topics`: those of its Brokers; empty: nobody refers to it any more."""

    def __init__(self, reference: str, topics: Collection[str] = ()) -> None:
        self.reference, self.topics = reference, topics
        self.keys: Mapping[str, str] = {}  #: those that Kafka has accepted
        self.own: OwnKafka | None = None  #: once Kafka has accepted it
        self.problem = SecretProblem("", f"the Kafka secret {reference} has not been tried yet")  #: until then
        self.tried = False
        self.producer: KafkaProducer | None = None

    def refusal(self, kafka: Mapping[str, Any]) -> SecretProblem | None:
        """Returns why Kafka does not accept these settings, with keys of this Secret. Blocks."""
        denied = _denied(kafka, self.topics)
        if isinstance(denied, SecretProblem):
            return SecretProblem(denied.reason, f"the Kafka secret {self.reference} is not used: {denied.message}")
        # A Secret of several Brokers must not fail all of them because of one whose ACLs are missing. But a change must
        # not take from a Broker what the present credentials may do.
        if denied and self.own is not None:
            before = _denied(self.own.kafka, denied)
            if isinstance(before, SecretProblem):
                if not before.reason:  # then nobody knows what the present ones may do
                    return SecretProblem("", f"the Kafka secret {self.reference} is not used yet: {before.message}")
            elif lost := denied.keys() - before.keys():
                why = denied[min(lost)]
                return SecretProblem(INVALID, f"the Kafka secret {self.reference} is not used: {why}")
        for why in denied.values():
            log.warning("a Broker's Kafka secret is used without a permission", reference=self.reference, reason=why)
        return None


def _denied(kafka: Mapping[str, Any], topics: Collection[str]) -> dict[str, str] | SecretProblem:
    """Returns the topics that a user may not describe, and why, or why Kafka does not let it in. Blocks."""
    denied: dict[str, str] = {}

    def add(topic: str, problem: KafkaFailed) -> None:
        if isinstance(problem, KafkaDenied):
            denied[topic] = str(problem)
        elif not isinstance(problem, KafkaNotFound):
            raise problem

    refusal = refused(kafka, dict.fromkeys(topics, ()), add)
    return denied if refusal is None else SecretProblem("" if refusal.away else INVALID, refusal.why)


class BrokerSecrets:
    """Event loop only. `start` it before the contract is read."""

    def __init__(
        self,
        root: Path | None,
        others: Mapping[str, Any],
        contract: Contract,
        make_producer: MakeProducer,
        crashed: Callable[[BaseException], None],
        drain_s: float = 0.0,
    ) -> None:
        """`root`: the folder of PENSTOCK_KAFKA_SECRETS. `others`: Kafka's settings that are not in a Secret. `drain_s`:
        how long deliveries may go on after the last reference to a Secret is gone."""
        self._root, self._others, self._contract = root, others, contract
        self._make_producer, self._crashed, self._drain_s = make_producer, crashed, drain_s
        self._secrets: dict[str, BrokerSecret] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tried = False
        self._listeners: list[Callable[[], None]] = []

    def start(self) -> None:
        """Follow the contract."""
        self._contract.on_change(self._follow)

    async def stop(self) -> None:
        """Close all producers, after everything that sends."""
        secrets, self._secrets = self._secrets, {}
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(secret.producer.stop(_STOP_S) for secret in secrets.values() if secret.producer))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a Secret can be used, or cannot for another reason."""
        self._listeners.append(listener)

    def get(self, reference: str) -> OwnKafka | SecretProblem:
        """Returns the clients of a Secret, or why there are none."""
        secret = self._secrets.get(reference) or BrokerSecret(reference)
        return secret.own or secret.problem

    def producer(self, reference: str) -> Produce | str:
        """Returns the producer of a Secret, or why there is none, without what senders need not know."""
        own = self.get(reference)
        if not isinstance(own, SecretProblem):
            return own.produce
        return "the Kafka credentials of this broker cannot be used" + (own.reason and f" ({own.reason})")

    @property
    def problems(self) -> dict[str, SecretProblem]:
        """Those that cannot be used, by reference."""
        unused = [secret for secret in self._secrets.values() if secret.topics and secret.own is None]
        return {secret.reference: secret.problem for secret in unused if secret.problem.reason}

    @property
    def in_use(self) -> list[BrokerSecret]:
        """Those that Kafka has accepted, and that the contract refers to."""
        return [secret for secret in self._secrets.values() if secret.topics and secret.own is not None]

    @property
    def tried(self) -> bool:
        """Whether each that the contract had at first has been tried once."""
        # Not those that come later: one new Broker must not make the whole worker unready.
        self._tried = self._tried or (self._contract.loaded and all(secret.tried for secret in self._secrets.values()))
        return self._tried

    def _follow(self) -> None:
        if not self._contract.loaded:
            return
        topics: dict[str, set[str]] = {}
        records: list[Channel | Subscription] = [*self._contract.channels.values()]
        for record in (*records, *self._contract.subscriptions.values()):
            if record.secret:
                topics.setdefault(record.secret, set()).add(record.topic)
        for reference in topics.keys() - self._secrets.keys():
            self._secrets[reference] = BrokerSecret(reference, topics[reference])
            self._begin(self._try(self._secrets[reference]))
        for secret in self._secrets.values():
            if secret.topics and secret.reference not in topics:
                # Not at once: deliveries are still under way, and the reference may come back.
                asyncio.get_running_loop().call_later(self._drain_s, self._close_unused, secret)
            secret.topics = topics.get(secret.reference, ())

    async def _try(self, secret: BrokerSecret) -> None:
        """Try until it is used, or nobody needs it."""
        for wait_s in doubling_s(*AGAIN_S):
            try:
                result = await call_in_thread(lambda: self._read(secret), TRY_LIMIT_S, f"secret-{secret.reference}")
                if not isinstance(result, SecretProblem):
                    await self._use(secret, *result)
                    return
            except TimeoutError:
                why = f"the Kafka secret {secret.reference} could not be tried: Kafka does not answer"
                result = SecretProblem("", why)
            except KafkaException as problem:  # this process must not end because of one Secret
                code = problem.args[0].name()  # more could show a value
                result = SecretProblem(INVALID, f"the Kafka client rejects the secret {secret.reference} ({code})")
            self._failed(secret, result)
            await asyncio.sleep(wait_s)
            if self._secrets.get(secret.reference) is not secret:
                return

    def _read(self, secret: BrokerSecret) -> Found | SecretProblem:
        """Runs in a thread of its own."""
        content = read_broker_secret(self._root, secret.reference, in_memory=True)
        if isinstance(content, SecretProblem):
            return content
        keys, settings = content
        whole = {**self._others, **settings}
        return secret.refusal(whole) or (keys, whole)

    def _failed(self, secret: BrokerSecret, problem: SecretProblem) -> None:
        secret.tried = True
        if problem != secret.problem:
            secret.problem = problem
            write = log.error if problem.reason in (NOT_FOUND, INVALID) else log.warning
            write("a Broker's Kafka secret cannot be used", reference=secret.reference, reason=problem.message)
            self._notify()

    async def _use(self, secret: BrokerSecret, keys: Mapping[str, str], kafka: Mapping[str, Any]) -> None:
        producer = self._make_producer(kafka, secret.reference)
        await producer.start()
        if self._secrets.get(secret.reference) is not secret:  # nobody needs it any more
            await producer.stop(_STOP_S)
            return
        secret.producer = producer
        secret.keys, secret.own, secret.tried = keys, OwnKafka(kafka, producer), True
        log.info("a Broker's Kafka secret is used", reference=secret.reference)
        self._notify()

    def _close_unused(self, secret: BrokerSecret) -> None:
        if not secret.topics and self._secrets.get(secret.reference) is secret:
            del self._secrets[secret.reference]
            if secret.producer is not None:
                self._begin(secret.producer.stop(_STOP_S))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._crashed(problem)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
