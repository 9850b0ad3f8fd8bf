"""The leader is killed at each step of a seek; the next one, on another machine, moves the offsets once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import status_topic
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.contract.seeks import Move, SeekPhase, SeekRequest
from tables.status_parts import encode_status
from tables.status_table import encode_request
from tests.integration.test_controller_failover import Pair

pytestmark = pytest.mark.integration

ID = "seek-of-the-test"
COMMITTED, END = 3, 10
STEPS = [
    ("kill-before", "RememberSeek:'stopping'"),
    ("kill-after", "RememberSeek:'stopping'"),
    ("kill-after", "PublishSubscription:stopped=True"),
    ("kill-before", "FindOffsets"),
    ("kill-after", "FindOffsets"),
    ("kill-before", "MoveOffsets"),
    ("kill-after", "MoveOffsets"),
    ("kill-after", "RememberSeek:'starting'"),
    ("kill-after", f"PublishSubscription:seek='{ID}', stopped=False"),
    ("kill-after", "RememberSeek:'done'"),
]


class _Worker:
    """Reports what a worker reports, as the second controller's tables show the contract."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._producer = Producer({"bootstrap.servers": pair.bootstrap, "linger.ms": 0})
        self._topic = status_topic(pair.instance)

    def ask(self) -> None:
        """A command asks for a seek."""
        request = SeekRequest(ID, "Subscription", "default", "billing", "+2", time.time())
        key, value = encode_request(request)
        self._producer.produce(self._topic, value, key)
        assert self._producer.flush(30) == 0

    async def run(self) -> None:
        while True:
            record = self._pair.second.published("billing")
            state = WorkerState.STOPPED if record.stopped else WorkerState.RUNNING
            mine = WorkerSubscription(record.generation, (), state, record.seek if record.stopped else "")
            status = WorkerStatus("w", time.time(), "dispatcher", {record.uid: mine})
            self._producer.produce(self._topic, encode_status(status), b"w")
            self._producer.poll(0)
            await asyncio.sleep(0.2)


async def _carried_out(pair: Pair, step: str) -> None:
    _, billing, _ = await pair.served()
    second = pair.second
    producer = Producer({"bootstrap.servers": pair.bootstrap})
    for _ in range(END):
        producer.produce(billing.topic, b"x")
    assert await asyncio.to_thread(producer.flush, 30) == 0
    at = {(billing.topic, 0): COMMITTED}
    await asyncio.to_thread(second.admin.groups.commit, billing.group, at)
    worker = _Worker(pair)
    reports = asyncio.create_task(worker.run())
    worker.ask()
    await pair.killed()

    def is_over() -> bool:
        seek = second.status.leaders.state().seeks.get(ID)
        return seek is not None and seek.is_over

    await second.until(is_over, f"{step}: it is over")
    seek = second.status.leaders.state().seeks[ID]
    assert (seek.phase, seek.moves) == (SeekPhase.DONE, (Move(0, COMMITTED, COMMITTED + 2),)), step
    committed = await asyncio.to_thread(second.offsets.committed, billing.group, billing.topic, [0])
    assert committed == {0: COMMITTED + 2}, step
    record = second.published("billing")
    assert (record.stopped, record.seek) == (False, ID), step
    await second.until(lambda: not second.status.seek_requests, f"{step}: the request is dropped")
    reports.cancel()


@pytest.mark.asyncio
async def test_next_leader_finishes_a_seek_at_whatever_step_the_last_one_was_killed(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    slots = asyncio.Semaphore(4)  # each waits for a session to end, most of the time

    async def finish(number: int, fault: str, step: str) -> None:
        async with slots, Pair(kafka, tmp_path / f"{number}", fault, step) as pair:
            await _carried_out(pair, f"{fault} {step}")

    await asyncio.gather(*(finish(number, fault, step) for number, (fault, step) in enumerate(STEPS)))
