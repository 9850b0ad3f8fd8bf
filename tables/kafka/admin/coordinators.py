"""Sends requests about groups to the brokers that coordinate them, on the event loop.

Not with librdkafka's administration client: when the connection to a coordinator breaks at the wrong moment, or the
coordinator has moved, that ends the process (SIGABRT, SIGSEGV; librdkafka 2.16, its issue 4605). And this client writes
a request to the socket in the call that sends it, so that what was checked right before still holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Self, TypeVar

from aiokafka import errors as aiokafka_errors
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.coordination import FindCoordinatorRequest
from confluent_kafka import KafkaError, KafkaException

from tables.kafka.admin.punctual_client import PunctualClient
from tables.kafka.admin.turns import AT_A_TIME
from tables.kafka.connection.python_clients import aiokafka_settings

T = TypeVar("T")

REQUEST_S = 8.0
REACH_S = 5.0
_REPLACED_S = 30.0  # a client that has reached no broker for this long is replaced: all addresses may have changed
#: The coordinator has moved, or is not ready.
MOVED = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
UNANSWERED = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
_UNREACHABLE = KafkaError(KafkaError._TRANSPORT, "the coordinator of the group cannot be reached")

# Where nobody has configured logging, Python prints warnings. Whoever calls gets the same as an exception.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


class NotReached(KafkaException):
    """The coordinator was not found or not connected: no request was sent."""


class _Turns(asyncio.Semaphore):
    """Requests on their way to a broker. When one has no answer, those that wait fail too: each would take its time."""

    has_failed = False

    async def __aenter__(self) -> Self:  # type: ignore[override]
        await self.acquire()
        if self.has_failed:
            self.release()
            raise NotReached(_UNREACHABLE)
        return self


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
        self._coordinators: dict[str, tuple[PunctualClient, int]] = {}  # group -> the client, and the id of its broker
        self._guide: int | None = None  # the broker that has said last who coordinates a group
        self._turns: dict[int | None, _Turns] = {}  # by broker; None: to look up
        self._failing_since: float | None = None  # no request has been answered since; time of the loop
        self._closed = False

    async def ask(self, group: str, request: Any) -> Any:
        """Returns the answer of the coordinator, which may contain errors: see `check`."""
        place = self._coordinators.get(group)
        if place is None:
            async with self._turns_at(None) as turns:
                place = await self._reach(group, turns, self._look_up(group))
            self._coordinators[group] = place
        client, node = place
        async with self._turns_at(node) as turns:
            await self._reach(group, turns, _connected(client, node, ConnectionGroup.COORDINATION))
            try:
                answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
            except aiokafka_errors.IncompatibleBrokerVersion as problem:
                raise KafkaException(KafkaError(KafkaError.UNSUPPORTED_VERSION)) from problem
            except (aiokafka_errors.KafkaError, KeyError, AssertionError) as problem:
                await self._failed(group, turns)
                raise KafkaException(_translated(problem)) from problem
        self._failing_since = None
        return answer

    def _turns_at(self, node: int | None) -> _Turns:
        turns = self._turns.get(node)
        if turns is None or turns.has_failed:
            turns = self._turns[node] = _Turns(AT_A_TIME)
        return turns

    async def _reach(self, group: str, turns: _Turns, step: Awaitable[T]) -> T:
        """Take a step towards a coordinator. Raises NotReached."""
        try:
            async with asyncio.timeout(self._reach_s):
                return await step
        except TimeoutError as problem:
            await self._failed(group, turns)
            raise NotReached(_UNREACHABLE) from problem
        # aiokafka raises the last two when a connection, or the last broker it knows, is gone between two of its steps.
        except (aiokafka_errors.KafkaError, KeyError, AssertionError) as problem:
            await self._failed(group, turns)
            raise NotReached(_translated(problem)) from problem

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
        self._coordinators.clear()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _look_up(self, group: str) -> tuple[PunctualClient, int]:
        client = await self._started()
        # Any broker knows. The one that has answered last is more likely to answer than another.
        guide, self._guide = self._guide, None
        if guide is None or client.cluster.broker_metadata(guide) is None:
            guide = client.get_random_node()
        await _connected(client, guide, ConnectionGroup.DEFAULT)
        answer = await client.send(guide, FindCoordinatorRequest(group, CoordinationType.GROUP))
        self._guide = guide
        if answer.error_code:
            raise NotReached(KafkaError(answer.error_code))
        return client, answer.coordinator_id

    async def _failed(self, group: str, turns: _Turns) -> None:
        turns.has_failed = True
        self._forget(group)
        now = asyncio.get_running_loop().time()
        self._failing_since = since = self._failing_since or now
        if now - since > _REPLACED_S:
            self._failing_since = None
            await self._drop()

    def _forget(self, group: str) -> None:
        """Look up again which broker coordinates this group, and all others of the same broker."""
        place = self._coordinators.get(group)
        self._coordinators = {name: at for name, at in self._coordinators.items() if at != place}

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


async def _connected(client: PunctualClient, node: int | None, group: ConnectionGroup) -> None:
    if not await client.ready(node, group=group):
        raise aiokafka_errors.NodeNotReadyError(f"broker {node} cannot be reached")


def _translated(problem: Exception) -> KafkaError:
    if isinstance(problem, aiokafka_errors.RequestTimedOutError):
        return KafkaError(KafkaError._TIMED_OUT)
    if isinstance(problem, aiokafka_errors.BrokerResponseError):
        return KafkaError(problem.errno)
    return KafkaError(KafkaError._TRANSPORT, ", ".join(map(str, problem.args)) or type(problem).__name__)
