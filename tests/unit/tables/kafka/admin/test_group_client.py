"""What a group client makes of answers, with tables of them; the requests themselves run on a real Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tables.kafka.admin.answers import GroupInfo
from tables.kafka.admin.consumer_protocol import ConsumerGroupDescribeRequest
from tables.kafka.admin.coordinators import NotReached
from tables.kafka.admin.group_client import GroupClient
from tables.kafka.errors import KafkaDenied, KafkaFailed, KafkaNotFound, KafkaUnavailable

pytestmark = pytest.mark.asyncio

_LIMIT_S = 60.0


class Answers:
    """Stands in for the coordinators: each request gets the next answer, and raises it if it is an exception."""

    def __init__(self, *answers: Any) -> None:
        self.left = list(answers)
        self.asked: list[Any] = []

    async def ask(self, _: str, request: Any) -> Any:
        self.asked.append(request)
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def check(self, _: str, code: int) -> None:
        if code:
            raise KafkaException(KafkaError(code))


def client_of(*answers: Any) -> tuple[GroupClient, Answers]:
    client, given = GroupClient({"bootstrap.servers": "h:1"}, "test"), Answers(*answers)
    client._coordinators = given  # type: ignore[assignment]
    return client, given


def classic(code: int, state: str, members: int = 0) -> Any:
    return SimpleNamespace(groups=[(code, "g", state, "consumer", "range", [()] * members)])


def kip848(code: int, state: str, members: int = 0) -> Any:
    return SimpleNamespace(groups=[(code, None, "g", state, 1, 1, "uniform", members + 1)])


def broken(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([classic(0, "Stable", 2)], GroupInfo("Stable", 2)),
        ([classic(0, "Empty")], GroupInfo("Empty", 0)),
        ([classic(0, "Dead"), kip848(KafkaError.GROUP_ID_NOT_FOUND, "")], None),
        ([classic(0, "Dead"), kip848(0, "Dead")], None),
        ([classic(0, "Dead"), kip848(0, "Reconciling", 3)], GroupInfo("Reconciling", 3)),
        ([classic(KafkaError.GROUP_ID_NOT_FOUND, "Dead"), kip848(0, "Empty")], GroupInfo("Empty", 0)),
        ([classic(0, "Dead"), broken(KafkaError.UNSUPPORTED_VERSION)], None),
        ([classic(0, "Dead"), kip848(KafkaError.UNSUPPORTED_VERSION, "")], None),
        ([broken(KafkaError._TRANSPORT), classic(0, "Empty")], GroupInfo("Empty", 0)),
        ([classic(KafkaError.NOT_COORDINATOR, ""), classic(0, "Empty")], GroupInfo("Empty", 0)),
        ([classic(0, "Dead"), broken(KafkaError._TIMED_OUT), classic(0, "Empty")], GroupInfo("Empty", 0)),
    ],
)
async def test_group_is_described_by_the_protocol_that_has_it(answers: list[Any], expected: GroupInfo | None) -> None:
    client, given = client_of(*answers)
    assert await client.describe("g", _LIMIT_S) == expected
    assert given.left == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (classic(KafkaError.GROUP_AUTHORIZATION_FAILED, ""), KafkaDenied),
        (broken(KafkaError.GROUP_AUTHORIZATION_FAILED), KafkaDenied),
        (classic(KafkaError.INVALID_GROUP_ID, ""), KafkaFailed),
    ],
)
async def test_errors_that_stay_are_not_tried_again(answer: Any, kind: type[KafkaFailed]) -> None:
    client, given = client_of(answer)
    with pytest.raises(kind, match=r"^describing group g: "):
        await client.describe("g", _LIMIT_S)
    assert given.left == []


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        (NotReached(KafkaError(KafkaError._TRANSPORT)), True),
        (NotReached(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)), True),
        (broken(KafkaError.NOT_COORDINATOR), True),
        (broken(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), True),
        (broken(KafkaError._TRANSPORT), False),
        (broken(KafkaError._TIMED_OUT), False),
        (broken(KafkaError.UNKNOWN_MEMBER_ID), False),
        (NotReached(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), False),
    ],
)
async def test_change_that_may_have_been_carried_out_is_not_sent_again(problem: Exception, again: bool) -> None:
    changes: list[tuple[Any, Callable[[GroupClient], Awaitable[None]]]] = [
        (SimpleNamespace(topics=[("t", [(0, 0)])]), lambda client: client.commit_in_time("g", {("t", 0): 1}, _LIMIT_S)),
        (SimpleNamespace(results=[("g", 0)]), lambda client: client.delete("g", _LIMIT_S)),
    ]
    for answer, change in changes:
        client, given = client_of(problem, answer)
        if again:
            await change(client)
            assert given.left == []
        else:
            with pytest.raises(KafkaFailed):
                await change(client)
            assert given.left == [answer]


async def test_coordinator_that_stays_away_is_an_error_in_time() -> None:
    client, given = client_of(*[broken(KafkaError._TRANSPORT)] * 1_000)
    with pytest.raises(KafkaUnavailable, match=r"^reading the offsets of group g: Kafka does not answer"):
        await client.fetch("g", "t", [0], 0.05)
    assert len(given.left) > 900


async def test_partition_that_is_not_there() -> None:
    answer = SimpleNamespace(error_code=0, topics=[("t", [(0, 5, "m\0", 0), (1, -1, "", 3), (2, -1, "", 0)])])
    client, _ = client_of(answer, answer)
    offsets, problems = await client.fetch_partitions("g", [("t", 0), ("t", 1), ("t", 2)], _LIMIT_S)
    assert {place: group_offset.metadata for place, group_offset in offsets.items()} == {("t", 0): "m"}
    assert {place: str(kafka_failed) for place, kafka_failed in problems.items()} == {
        ("t", 1): "reading the offsets of group g, partition 1: Broker: Unknown topic or partition"
    }
    with pytest.raises(KafkaNotFound):
        await client.fetch("g", "t", [0, 1, 2], _LIMIT_S)


async def test_request_of_kip_848_is_as_kafka_documents_it() -> None:
    """Key 69, version 0: a compact array of compact strings, a boolean, no tagged fields."""
    request = ConsumerGroupDescribeRequest("ab").prepare({69: (0, 1)})
    assert (request.API_KEY, request.API_VERSION) == (69, 0)
    assert request.encode() == b"\x02\x03ab\x00\x00"
