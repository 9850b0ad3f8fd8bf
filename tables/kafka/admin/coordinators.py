"""Sends requests about groups to the brokers that coordinate them, on the event loop.

Not with librdkafka's administration client: when the connection to a coordinator breaks at the wrong moment, or the
coordinator has moved, that ends the process (SIGABRT, SIGSEGV; librdkafka 2.16, its issue 4605). And this client writes
a request to the socket in the call that sends it, so that what was checked right before still holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokafka import errors as aiokafka_errors
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.coordination import FindCoordinatorRequest
from confluent_kafka import KafkaError, KafkaException

from tables.kafka.admin.punctual_client import PunctualClient
from tables.kafka.connection.python_clients import aiokafka_settings

REQUEST_S = 8.0
REACH_S = 5.0
_REPLACED_S = 30.0  # a client that has reached no broker for so long is replaced: all addresses may have changed
#: The coordinator has moved, or is not ready.
MOVED = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
UNANSWERED = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})

# Where nobody has configured logging, Python prints warnings. Whoever calls gets the same as an exception.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


class NotReached(KafkaException):
    """The coordinator was not found or not connected: no request was sent."""


class Coordinators:
    """One client for all groups of a process. Event loop only; all methods raise KafkaException."""

    def __init__(
        self, kafka: Mapping[str, Any], client_name: str, reach_s: float = REACH_S, arrive_s: float = REQUEST_S
    ) -> None:
        """`kafka`: librdkafka client settings. `reach_s`: the limit for finding a coordinator and connecting to it.
        `arrive_s`: what has not arrived there after that never does."""
        self._kafka = kafka
        self._client_name = client_name
        self._reach_s = reach_s
        self._arrive_s = arrive_s
        self._client: PunctualClient | None = None
        self._starting = asyncio.Lock()
        self._coordinators: dict[str, int] = {}  # group -> the id of its broker
        self._guide: int | None = None  # the broker that has said last who coordinates a group
        self._failing_since: float | None = None  # no request has been answered since; time of the loop
        self._closed = False

    async def reach(self, group: str) -> tuple[PunctualClient, int]:
        """Find the coordinator of a group and connect to it: the client, and the id of the broker."""
        try:
            async with asyncio.timeout(self._reach_s):
                return await self._reached(group)
        except TimeoutError as problem:
            await self._failed(group)
            raise NotReached(
                KafkaError(KafkaError._TRANSPORT, "the coordinator of the group cannot be reached")
            ) from problem
        # aiokafka raises the last two when a connection, or the last broker it knows, is gone between two of its steps.
        except (aiokafka_errors.KafkaError, KeyError, AssertionError) as problem:
            await self._failed(group)
            raise NotReached(_translated(problem)) from problem

    async def ask(self, group: str, request: Any) -> Any:
        """The answer of the coordinator, which may contain errors: see `check`."""
        client, node = await self.reach(group)
        try:
            answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
        except aiokafka_errors.IncompatibleBrokerVersion as problem:
            raise KafkaException(KafkaError(KafkaError.UNSUPPORTED_VERSION)) from problem
        except (aiokafka_errors.KafkaError, KeyError, AssertionError) as problem:
            await self._failed(group)
            raise KafkaException(_translated(problem)) from problem
        self._failing_since = None
        return answer

    def check(self, group: str, code: int) -> None:
        """Raise the error that an answer contains; 0 = none."""
        if code:
            if code in MOVED:
                self._forget(group)
            raise KafkaException(KafkaError(code))

    async def close(self) -> None:
        """Close all connections. A request after that fails."""
        self._closed = True
        await self._drop()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _reached(self, group: str) -> tuple[PunctualClient, int]:
        client = await self._started()
        node = self._coordinators.get(group)
        if node is None:
            node = await self._look_up(client, group)
            self._coordinators[group] = node
        if not await client.ready(node, group=ConnectionGroup.COORDINATION):
            raise aiokafka_errors.NodeNotReadyError(f"broker {node}, the coordinator of the group, cannot be reached")
        return client, node

    async def _look_up(self, client: PunctualClient, group: str) -> int:
        # Any broker knows. The one that has answered last is more likely to answer than another.
        guide, self._guide = self._guide, None
        if guide is None or client.cluster.broker_metadata(guide) is None:
            guide = client.get_random_node()
        if not await client.ready(guide):
            raise aiokafka_errors.NodeNotReadyError(f"broker {guide} cannot be reached")
        answer = await client.send(guide, FindCoordinatorRequest(group, CoordinationType.GROUP))
        self._guide = guide
        if answer.error_code:
            raise aiokafka_errors.for_code(answer.error_code)()
        node: int = answer.coordinator_id
        return node

    async def _failed(self, group: str) -> None:
        self._forget(group)
        now = asyncio.get_running_loop().time()
        self._failing_since = since = self._failing_since or now
        if now - since > _REPLACED_S:
            self._failing_since = None
            await self._drop()

    def _forget(self, group: str) -> None:
        """Look up again which broker coordinates this group, and all others of the same broker."""
        node = self._coordinators.get(group)
        self._coordinators = {name: at for name, at in self._coordinators.items() if at != node}

    async def _started(self) -> PunctualClient:
        async with self._starting:
            if self._closed:
                raise aiokafka_errors.KafkaConnectionError("the client is closed")
            if self._client is None:
                client = PunctualClient(
                    arrive_s=self._arrive_s,
                    **aiokafka_settings(self._kafka),
                    client_id=self._client_name,
                    request_timeout_ms=round(REQUEST_S * 1000),
                )
                try:
                    await client.bootstrap()
                except aiokafka_errors.KafkaConnectionError as problem:
                    await client.close()
                    raise aiokafka_errors.KafkaConnectionError(
                        f"no broker of {self._kafka['bootstrap.servers']} can be reached"
                    ) from problem
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client


def _translated(problem: Exception) -> KafkaError:
    if isinstance(problem, aiokafka_errors.RequestTimedOutError):
        return KafkaError(KafkaError._TIMED_OUT)
    if isinstance(problem, aiokafka_errors.BrokerResponseError):
        return KafkaError(problem.errno)
    return KafkaError(KafkaError._TRANSPORT, ", ".join(map(str, problem.args)) or type(problem).__name__)
