"""A watcher of an API server that answers every list, and ends every watch as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from controller.kube.api_server import ApiServer
from controller.source.cluster import watcher as module
from controller.source.cluster.store import ObjectStore
from controller.source.cluster.watcher import Collection, Watcher
from tests.support.processes import free_port
from tests.support.waiting import until

LIMIT_S = 180.0
EVENT = b'{"type": "BOOKMARK", "object": {"kind": "Service", "metadata": {"resourceVersion": "7"}}}\n'
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


class Server:
    """An API server with one empty list."""

    def __init__(self) -> None:
        self.lists = 0
        self.says, self.cuts = b"", False  #: what each watch says, and whether it is reset after that
        self.refuses = False  #: everything is answered with 503
        self.holds = False  #: a watch does not end

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            return web.Response(status=503)
        if "watch" not in request.query:
            self.lists += 1
            return web.json_response({"items": [], "metadata": {"resourceVersion": "5"}})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(self.says)
        if self.holds:
            await asyncio.sleep(LIMIT_S)
        if self.cuts and request.transport is not None:
            request.transport.abort()
        return response


@asynccontextmanager
async def watched(server: Server, folder: Path) -> AsyncIterator[tuple[Watcher, list[str]]]:
    """A watcher that runs, and its problems one after the other."""
    port, config = free_port(), folder / "config"
    config.write_text(KUBECONFIG.replace("PORT", str(port)))
    app = web.Application()
    app.router.add_get("/api/v1/services", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    api, problems = ApiServer(str(config)), [""]

    def changed() -> None:
        if watcher.problem != problems[-1]:
            problems.append(watcher.problem)

    await api.open()
    watcher = Watcher(api, Collection("/api/v1/services"), ObjectStore(), changed)
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher, problems
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await api.close()
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LONGEST_CUT_PAUSE_S", 0.02)


@pytest.mark.asyncio
async def test_while_every_watch_is_cut_lists_go_on_and_one_problem_stays(tmp_path: Path) -> None:
    server = Server()
    server.says, server.cuts = EVENT[:20], True
    async with watched(server, tmp_path) as (watcher, problems):
        await until(lambda: server.lists > 10)
        assert len(problems) == 2, problems
        assert problems[1].startswith("watch of /api/v1/services: ")
        server.says, server.cuts = EVENT, False
        await until(lambda: not watcher.problem)
        assert len(problems) == 3, problems


@pytest.mark.asyncio
async def test_watch_that_ends_at_once_without_an_error_is_no_problem(tmp_path: Path) -> None:
    """Perhaps it would meet an event that never comes through, so everything is listed now and then."""
    server = Server()
    async with watched(server, tmp_path) as (_, problems):
        await until(lambda: server.lists > 3)
        assert problems == [""]


@pytest.mark.asyncio
async def test_list_that_can_be_read_again_is_no_problem_any_more(tmp_path: Path) -> None:
    """Before the stream that follows has ended."""
    server = Server()
    server.refuses, server.holds = True, True
    async with watched(server, tmp_path) as (watcher, problems):
        await until(lambda: bool(watcher.problem))
        server.refuses = False
        await until(lambda: not watcher.problem)
        assert problems == ["", "GET /api/v1/services: 503 Service Unavailable", ""]
