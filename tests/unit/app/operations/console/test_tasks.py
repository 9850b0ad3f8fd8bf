"""What people start in the console: one of a kind at a time, recorded first, stopped once, and nothing kept of it."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from app.operations.console.tasks import Running, Tasks
from knative.errors import NotReadyError, UsageError


class _Audit:
    """What was recorded; `fails`: it cannot be."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.fails = False

    async def start(self) -> None:
        await self._record("start")

    async def stop(self, _: Running) -> None:
        await self._record("stop")

    async def ended(self, _: Running) -> None:
        await self._record("ended")

    async def _record(self, act: str) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise NotReadyError("Kafka does not answer.")
        self.records.append(act)


@pytest.mark.asyncio
async def test_two_at_once_make_one_record() -> None:
    audit = _Audit()
    tasks = Tasks(audit.ended)

    async def work(_: Running) -> None:
        await asyncio.Event().wait()

    starts = [tasks.start(Running(who, "redrive", "all"), work, audit.start) for who in ("anna", "bob")]
    results = await asyncio.gather(*starts, return_exceptions=True)

    assert [type(result) for result in results] == [type(None), NotReadyError]
    assert audit.records == ["start"]
    assert [task.who for task in tasks.newest_first] == ["anna"]


@pytest.mark.asyncio
async def test_what_cannot_be_recorded_does_not_start() -> None:
    audit = _Audit()
    tasks, begun = Tasks(audit.ended), asyncio.Event()

    async def work(_: Running) -> None:
        begun.set()

    audit.fails = True
    with pytest.raises(NotReadyError, match="Kafka does not answer"):
        await tasks.start(Running("anna", "seek", "all"), work, audit.start)
    assert tasks.newest_first == []
    audit.fails = False
    await tasks.start(Running("anna", "seek", "all"), work, audit.start)
    await asyncio.wait_for(begun.wait(), 60)


@pytest.mark.asyncio
async def test_two_clicks_stop_once() -> None:
    audit, stops, done = _Audit(), [0], asyncio.Event()
    tasks = Tasks(audit.ended)

    def stop(_: str) -> None:
        stops[0] += 1

    async def work(running: Running) -> None:
        running.stop = stop
        await done.wait()

    await tasks.start(Running("anna", "redrive", "all"), work, audit.start)
    await asyncio.sleep(0)
    (task,) = tasks.newest_first
    assert task.can_stop
    await asyncio.gather(tasks.stop_one(task.id, audit.stop), tasks.stop_one(task.id, audit.stop))
    assert stops == [1]
    assert not tasks.newest_first[0].can_stop
    with pytest.raises(UsageError, match="has already ended, or is about to"):
        await tasks.stop_one(task.id, audit.stop)
    done.set()
    await tasks.leave(60)
    assert stops == [1]


@pytest.mark.asyncio
async def test_what_runs_has_ended_and_is_recorded_before_the_process_ends() -> None:
    audit, reasons, begun = _Audit(), [], asyncio.Event()
    tasks = Tasks(audit.ended)

    async def work(running: Running) -> None:
        stopped = asyncio.Event()

        def stop(why: str) -> None:
            reasons.append(why)
            stopped.set()

        running.stop = stop
        begun.set()
        await stopped.wait()

    await tasks.start(Running("anna", "redrive", "all"), work, audit.start)
    await asyncio.wait_for(begun.wait(), 60)
    await tasks.leave(60)

    assert reasons == ["the worker is stopping"]
    assert audit.records == ["start", "ended"]
    with pytest.raises(NotReadyError, match="This worker is stopping"):
        await tasks.start(Running("anna", "seek", "all"), work, audit.start)


@pytest.mark.asyncio
async def test_what_does_not_end_is_left_after_a_limit() -> None:
    audit = _Audit()
    tasks = Tasks(audit.ended)

    async def work(_: Running) -> None:
        await asyncio.Event().wait()

    await tasks.start(Running("anna", "seek", "all"), work, audit.start)
    await tasks.leave(0.01)
    assert audit.records == ["start"]


class _Run:
    """What a redrive holds, such as its ledger."""

    text = "3 redriven"

    def stop(self, _: str) -> None:
        """Never called."""

    def progress(self) -> str:
        return self.text


@pytest.mark.asyncio
@pytest.mark.parametrize("fails", [False, True])
async def test_what_has_ended_keeps_its_text_only(fails: bool) -> None:
    audit, held, ended = _Audit(), [], asyncio.Event()

    async def end(_: Running) -> None:
        ended.set()

    async def work(running: Running) -> None:
        run = _Run()
        held.append(weakref.ref(run))
        running.stop, running.progress = run.stop, run.progress
        if fails:
            raise NotReadyError("Kafka does not answer.")

    tasks = Tasks(end)
    await tasks.start(Running("anna", "redrive", "all"), work, audit.start)
    await asyncio.wait_for(ended.wait(), 60)
    await asyncio.sleep(0)
    gc.collect()

    assert held[0]() is None
    assert (tasks.newest_first[0].progress, tasks.newest_first[0].problem is None) == ("3 redriven", not fails)
