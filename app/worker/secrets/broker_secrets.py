"""The Secrets of Brokers that the contract refers to: clients of each exist as long as a Broker or a Trigger has it.

contract --references--> BrokerSecret (a task each) --accepted--> ingress and supervisor use its clients
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from agents.dispatch.context import OwnKafka
from app.worker.secrets.broker_secret import BrokerSecret, MakeProducer
from knative.contract.broker_secrets import SecretProblem
from knative.contract.records import Channel, Subscription
from knative.ports import Produce

_STOP_S = 5.0


class Contract(Protocol):
    """What this needs of the contract."""

    @property
    def loaded(self) -> bool:
        """True once the contract topic has been read to its end."""

    @property
    def channels(self) -> Mapping[str, Channel]:
        """By uid."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """By uid."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""


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
        self._secrets: dict[str, tuple[BrokerSecret, asyncio.Task[None]]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._tried = False
        self._listeners: list[Callable[[], None]] = []

    def start(self) -> None:
        """Follow the contract."""
        self._contract.on_change(self._follow)

    async def stop(self) -> None:
        """Close all producers, after everything that sends."""
        secrets, self._secrets = self._secrets, {}
        for _, task in secrets.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in secrets.values()), return_exceptions=True)
        await asyncio.gather(*(secret.stop(_STOP_S) for secret, _ in secrets.values()), *self._closing)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a Secret can be used, or cannot for another reason."""
        self._listeners.append(listener)

    def get(self, reference: str) -> OwnKafka | SecretProblem:
        """The clients of a Secret, or why there are none."""
        found = self._secrets.get(reference)
        if found is None:
            return SecretProblem("", f"the Kafka secret {reference} has not been tried yet")
        return found[0].own or found[0].problem

    def producer(self, reference: str) -> Produce | str:
        """The producer of a Secret, or why there is none, without what senders need not know."""
        own = self.get(reference)
        if not isinstance(own, SecretProblem):
            return own.produce
        return "the Kafka credentials of this broker cannot be used" + (own.reason and f" ({own.reason})")

    @property
    def problems(self) -> dict[str, SecretProblem]:
        """Those that cannot be used, by reference."""
        return {
            name: secret.problem
            for name, (secret, _) in self._secrets.items()
            if secret.topics and secret.own is None and secret.problem.reason
        }

    @property
    def in_use(self) -> list[BrokerSecret]:
        """Those that Kafka has accepted, and that the contract refers to."""
        return [secret for secret, _ in self._secrets.values() if secret.topics and secret.own is not None]

    @property
    def tried(self) -> bool:
        """Whether each that the contract had at first has been tried once."""
        # Not those that come later: one new Broker must not make the whole worker unready.
        self._tried = self._tried or (self._contract.loaded and all(one.tried for one, _ in self._secrets.values()))
        return self._tried

    def _follow(self) -> None:
        if not self._contract.loaded:
            return
        wanted: dict[str, set[str]] = {}
        for channel in self._contract.channels.values():
            if channel.secret:
                wanted.setdefault(channel.secret, set()).add(channel.topic)
        for one in self._contract.subscriptions.values():
            if one.secret:
                wanted.setdefault(one.secret, set()).add(one.topic)
        for reference, topics in wanted.items():
            if reference not in self._secrets:
                secret = BrokerSecret(reference, self._root, self._others, self._make_producer, self._notify)
                secret.topics = topics
                self._secrets[reference] = secret, self._begin(secret.run())
            self._secrets[reference][0].topics = frozenset(topics)
        for reference, (secret, _) in self._secrets.items():
            if secret.topics and reference not in wanted:
                secret.topics = ()
                asyncio.get_running_loop().call_later(self._drain_s, self._close_unused, reference)

    def _close_unused(self, reference: str) -> None:
        """Not at once: deliveries are still under way, and the reference may come back."""
        found = self._secrets.get(reference)
        if found is not None and not found[0].topics:
            del self._secrets[reference]
            found[1].cancel()
            self._closing.add(self._begin(found[0].stop(_STOP_S)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._crashed(problem)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
