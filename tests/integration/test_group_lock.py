"""The group lock on a real Kafka: a holder that was stopped for too long is fenced."""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tables.kafka.group_lock import GroupLock

pytestmark = pytest.mark.integration

LEADER = """
import asyncio, sys
from tables.kafka.group_lock import GroupLock

async def main():
    kafka = {"bootstrap.servers": sys.argv[1]}
    lock = GroupLock(sys.argv[2], sys.argv[3], kafka, 6.0, changed=lambda _: None, crashed=print, failed=lambda _: None)
    lock.start()
    while not lock.held:
        await asyncio.sleep(0.05)
    print(await lock.confirm(), flush=True)
    sys.stdin.readline()
    print(await lock.confirm(), flush=True)
    await lock.stop(5.0)

asyncio.run(main())
"""


@pytest.mark.asyncio
async def test_leader_that_was_stopped_past_its_session_is_not_confirmed(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic, group = make_topic(1), f"lock-{uuid.uuid4()}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LEADER, kafka.bootstrap, group, topic),
        cwd=Path(__file__).parents[2],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    crashes: list[BaseException] = []
    took_over = asyncio.Event()
    client = {"bootstrap.servers": kafka.bootstrap}
    other = GroupLock(
        group, topic, client, 6.0, changed=lambda _: took_over.set(), crashed=crashes.append, failed=print
    )
    try:
        async with asyncio.timeout(180):
            while (await process.stdout.readline()).strip() != b"True":
                assert not process.stdout.at_eof()
            process.send_signal(signal.SIGSTOP)
            process.stdin.write(b"\n")
            other.start()
            await took_over.wait()
            assert await other.confirm()
            process.send_signal(signal.SIGCONT)
            assert b"False" in await process.stdout.read()
            assert await other.confirm()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await other.stop(5.0)
    assert crashes == []
