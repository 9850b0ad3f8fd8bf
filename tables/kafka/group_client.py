"""Reads and commits offsets of groups without members, on the event loop.

Not with librdkafka's administration client: when the connection to a coordinator breaks at the wrong moment, or the
coordinator has moved, that ends the process (SIGABRT, SIGSEGV; librdkafka 2.16). And this client writes a request to
the socket in the call that sends it, so that what was checked right before still holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from aiokafka import errors as aiokafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tables.kafka.answers import GroupOffset
from tables.kafka.errors import failed
from tables.kafka.live_settings import on_replaced, present
from tables.kafka.python_clients import aiokafka_settings

_LIMIT_S = 8.0  # for one request
_AGAIN_S = 0.2
_REPLACED_S = 30.0  # a client that has reached no broker for so long is replaced: all addresses may have changed
_NO_GENERATION, _NO_RETENTION = -1, -1
#: Written after metadata, as librdkafka does: it copies what it reads without an end, and would read on in memory.
_END = "\0"
#: The coordinator has moved, or is not ready.
_MOVED = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_AGAIN = _MOVED | {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}


class _Checked:
    """A request that asks whether it may be sent as the last step before the socket, when it is encoded already.

    Kafka does not refuse a commit that comes late. A process that is frozen in between sends it when it goes on, and so
    moves back what another process has committed meanwhile.
    """

    def __init__(self, request: Any, may_send: Callable[[], bool]) -> None:
        self._request = request
        self._may_send = may_send

    def prepare(self, versions: Any) -> Any:
        """Called by aiokafka, which calls `encode` of what this returns and writes the result to the socket."""
        prepared = self._request.prepare(versions)
        encoded = prepared.encode()

        def encode() -> Any:
            if not self._may_send():
                # As Kafka refuses a member whose partitions may belong to another one.
                raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "the assignment is not confirmed"))
            return encoded

        prepared.encode = encode
        return prepared


class GroupClient:
    """One client for all groups of a process. Event loop only."""

    def __init__(self, kafka: Mapping[str, Any], client_name: str) -> None:
        """`kafka`: librdkafka client settings. When they are replaced, so is the client."""
        self._kafka = kafka
        self._client_name = client_name
        self._client: AIOKafkaClient | None = None
        self._retiring: set[asyncio.Task[None]] = set()  # former clients, until their requests are answered
        self._starting = asyncio.Lock()
        self._coordinators: dict[str, int] = {}  # group -> the id of its broker
        self._failing_since: float | None = None  # no request has been answered since; time of the loop
        self._closed = False
        on_replaced(kafka, self._outdated)

    async def fetch(self, group: str, topic: str, numbers: Collection[int], limit_s: float) -> dict[int, GroupOffset]:
        """Partition -> what the group has committed, without those that have nothing. Tries again for `limit_s` while
        the coordinator moves or cannot be reached. Raises KafkaFailed."""
        doing, last = f"reading the offsets of group {group}", KafkaError(KafkaError._TIMED_OUT)
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    try:
                        return await self._fetch(group, topic, numbers)
                    except KafkaException as problem:
                        last = problem.args[0]
                        if last.code() not in _AGAIN:
                            raise failed(doing, last, f"Describe on group {group} and its topics") from problem
                    await asyncio.sleep(_AGAIN_S)
        except TimeoutError as problem:
            raise failed(doing, last) from problem

    async def _fetch(self, group: str, topic: str, numbers: Collection[int]) -> dict[int, GroupOffset]:
        answer = await self._ask(group, OffsetFetchRequest(group, [(topic, list(numbers))]))
        self._check(group, answer.error_code)
        found = {}
        for _, partitions in answer.topics:
            for number, offset, metadata, code in partitions:
                self._check(group, code)
                if offset >= 0:
                    found[number] = GroupOffset(offset, metadata and metadata.removesuffix(_END))
        return found

    async def commit(self, group: str, wanted: Sequence[TopicPartition], may_send: Callable[[], bool]) -> None:
        """Commit partitions of one topic. `may_send` is asked right before the request is written. Raises
        KafkaException, with the first error of a partition; others may have been committed."""
        places = [(one.partition, one.offset, one.metadata + _END if one.metadata else "") for one in wanted]
        request = OffsetCommitRequest(group, _NO_GENERATION, "", _NO_RETENTION, [(wanted[0].topic, places)])
        answer = await self._ask(group, _Checked(request, may_send))
        for _, partitions in answer.topics:
            for _, code in partitions:
                self._check(group, code)

    async def close(self) -> None:
        """Close all connections. A request after that fails."""
        self._closed = True
        for retiring in self._retiring:
            retiring.cancel()
        await asyncio.gather(self._drop(), *self._retiring, return_exceptions=True)

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # -- requests

    async def _ask(self, group: str, request: Any) -> Any:
        try:
            client = await self._started()
            node = self._coordinators.get(group)
            if node is None:
                node = await client.coordinator_lookup(CoordinationType.GROUP, group)
                self._coordinators[group] = node
            if not await client.ready(node, group=ConnectionGroup.COORDINATION):
                raise aiokafka_errors.NodeNotReadyError(f"broker {node} cannot be reached")
            answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
        # aiokafka raises the last two when a connection, or the last broker it knows, is gone between two of its steps.
        except (aiokafka_errors.KafkaError, KeyError, AssertionError) as problem:
            self._forget(group)
            await self._failed()
            raise KafkaException(_translated(problem)) from problem
        self._failing_since = None
        return answer

    async def _failed(self) -> None:
        now = asyncio.get_running_loop().time()
        self._failing_since = since = self._failing_since or now
        if now - since > _REPLACED_S:
            self._failing_since = None
            await self._drop()

    async def _started(self) -> AIOKafkaClient:
        async with self._starting:
            if self._closed:
                raise aiokafka_errors.KafkaConnectionError("the client is closed")
            while self._client is None:
                kafka = present(self._kafka)
                client = AIOKafkaClient(
                    **aiokafka_settings(kafka),
                    client_id=self._client_name,
                    request_timeout_ms=round(_LIMIT_S * 1000),
                )
                try:
                    await client.bootstrap()
                except BaseException:
                    await client.close()
                    raise
                if kafka is present(self._kafka):
                    self._client = client
                else:
                    await client.close()
            return self._client

    def _outdated(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._coordinators.clear()
            retiring = asyncio.get_running_loop().create_task(_close_later(client))
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)

    def _check(self, group: str, code: int) -> None:
        if code:
            if code in _MOVED:
                self._forget(group)
            raise KafkaException(KafkaError(code))

    def _forget(self, group: str) -> None:
        """Look up again which broker coordinates this group, and all others of the same broker."""
        node = self._coordinators.get(group)
        self._coordinators = {name: at for name, at in self._coordinators.items() if at != node}


async def _close_later(client: AIOKafkaClient) -> None:
    """When each request that it has sent is answered or over. A task that is cancelled closes it at once."""
    try:
        await asyncio.sleep(_LIMIT_S)
    finally:
        await client.close()


def _translated(problem: Exception) -> KafkaError:
    if isinstance(problem, aiokafka_errors.RequestTimedOutError):
        return KafkaError(KafkaError._TIMED_OUT)
    if isinstance(problem, aiokafka_errors.BrokerResponseError):
        return KafkaError(problem.errno)
    return KafkaError(KafkaError._TRANSPORT, str(problem))
