"""How many requests are on their way to a broker, and what becomes of those that wait when it fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest
from confluent_kafka import KafkaError, KafkaException

from tables.kafka.admin.coordinators import Coordinators, NotReached

pytestmark = pytest.mark.asyncio

_GROUPS = [f"g{number}" for number in range(1_000)]
_AT_A_TIME = 256
_DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED


class Client:
    """Stands in for aiokafka's: one broker, which answers when it may."""

    cluster = SimpleNamespace(broker_metadata=lambda node: node)

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.problem: Exception | None = None
        self.sent: list[str] = []
        self.looked_up = 0
        self.refused: tuple[str, ...] = ()
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def get_random_node(self) -> int:
        return 1

    async def ready(self, *_: Any, **__: Any) -> bool:
        return True

    async def send(self, _node: int, request: Any, **_options: Any) -> Any:
        kind = type(request).__name__
        self.under_way[kind] += 1
        self.most[kind] = max(self.most[kind], self.under_way[kind])
        try:
            await asyncio.sleep(0)
            if isinstance(request, FindCoordinatorRequest):
                self.looked_up += 1
                refused = request._coordinator_key in self.refused
                return SimpleNamespace(error_code=_DENIED if refused else 0, coordinator_id=1)
            self.sent.append(request)
            await self.answers.wait()
            if self.problem is not None:
                raise self.problem
            return request
        finally:
            self.under_way[kind] -= 1


def coordinators_with(client: Any) -> Coordinators:
    coordinators = Coordinators({"bootstrap.servers": "h:1"}, "test", reach_s=60.0)
    coordinators._client = client
    return coordinators


async def until_all_wait(client: Client) -> None:
    async with asyncio.timeout(60):
        while client.looked_up < len(_GROUPS) or len(client.sent) < _AT_A_TIME:
            await asyncio.sleep(0.01)


async def test_broker_is_asked_about_some_groups_at_a_time() -> None:
    """All at once, the last ones waited there until their time limits."""
    client = Client()
    coordinators = coordinators_with(client)
    client.answers.set()
    assert await asyncio.gather(*(coordinators.ask(group, group) for group in _GROUPS)) == _GROUPS
    assert client.most == {"FindCoordinatorRequest": _AT_A_TIME, "str": _AT_A_TIME}


async def test_what_waits_for_a_broker_that_fails_fails_with_it_and_is_not_sent() -> None:
    """Otherwise each round would take its own time limit."""
    client = Client()
    coordinators = coordinators_with(client)
    asked = [asyncio.create_task(coordinators.ask(group, group)) for group in _GROUPS]
    await until_all_wait(client)
    client.problem = RequestTimedOutError()
    client.answers.set()
    problems = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(problem) for problem in problems} == {KafkaException, NotReached}
    assert len(client.sent) == _AT_A_TIME
    client.problem = None
    assert await coordinators.ask("g0", "again") == "again"


async def test_group_that_kafka_refuses_fails_alone() -> None:
    client = Client()
    coordinators = coordinators_with(client)
    client.answers.set()
    client.refused = ("g7",)
    answers = await asyncio.gather(*(coordinators.ask(group, group) for group in _GROUPS), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, str)] == [group for group in _GROUPS if group != "g7"]
    refused = answers[7]
    assert isinstance(refused, NotReached)
    assert refused.args[0].code() == _DENIED
