"""What one fetch takes of what the client has ready."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message

from agents.reader.fetch import Fetcher


class Client(Consumer):
    """A client whose queue is filled by hand."""

    def __init__(self, *ready: Message) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
        self.ready = list(ready)
        self.calls = 0
        self.rebalance: Callable[[], None] = lambda: None  #: happens within the next `consume`

    def poll(self, timeout: float = -1) -> Message | None:
        self.calls += 1
        return self.ready.pop(0) if self.ready else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        assert timeout == 0, "with a time limit, it waits until there are so many"
        self.calls += 1
        self.rebalance()
        taken, self.ready = self.ready[:num_messages], self.ready[num_messages:]
        return taken


def _record(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=b"x")


def _end(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


@pytest.mark.parametrize("lone", [[_record(0, 5), _end(1, 9)], [_end(1, 9), _record(0, 5)], [_record(0, 5)]])
def test_lone_record_and_the_end_of_a_partition_come_together(lone: list[Message]) -> None:
    client = Client(*lone)
    assert Fetcher(lambda _: "mine").fetch(client, 1.0) == lone
    assert client.calls == 2


def test_behind_many_records_more_are_taken_by_one_call() -> None:
    backlog = [_record(0, offset) for offset in range(2500)]
    client, fetcher = Client(*backlog), Fetcher(lambda _: "mine")
    taken = [fetcher.fetch(client, 1.0) for _ in range(3)]
    assert [len(messages) for messages in taken] == [1000, 1000, 500]
    assert [message for messages in taken for message in messages] == backlog
    assert client.calls == 2 + 1 + 1


def test_record_whose_partition_is_revoked_meanwhile_is_left_to_the_next_owner() -> None:
    owners: dict[int | None, object] = {0: "mine", 1: "mine"}
    client = Client(_record(0, 5), _record(1, 7))

    def revoke() -> None:
        owners[0] = "mine again"

    client.rebalance = revoke
    (left,) = Fetcher(owners.get).fetch(client, 1.0)
    assert (left.partition(), left.offset()) == (1, 7)
