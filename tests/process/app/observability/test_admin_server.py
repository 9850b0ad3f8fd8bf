"""Metrics and health on the admin port, and metrics that threads count while they are read."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.web import Request, Response, UrlDispatcher
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.observability.admin_server import AdminConfig, AdminServer
from app.observability.metrics import Metrics
from app.observability.others import Others
from knative.contract.records import Channel, SubscriberStatus, Subscription
from knative.delivery.policy import Addressable
from knative.errors import PenstockError
from tables.subscriber_details import details
from tests.support.fakes import MemoryContract
from tests.support.processes import free_port
from web.pages.subscribers import SubscribersPage


def test_scrapes_and_counting_threads_do_not_disturb_each_other() -> None:
    metrics = Metrics()

    def count(partition: int) -> None:
        for number in range(20_000):
            metrics.consumed("c", f"t{number % 50}", partition, 1)

    threads = [threading.Thread(target=count, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        generate_latest(metrics.registry)
    for thread in threads:
        thread.join(30)

    families = {family.name: family for family in metrics.collect()}
    samples = families["eventing_kafka_consumed_msg_count"].samples
    assert sum(sample.value for sample in samples) == 80_000


CONTRACT = MemoryContract(Channel("u", 1, "demo", "orders", "t", "d", 1))
SUBSCRIPTION = Subscription("s1", 3, "demo", "s1", "u", "orders", "t", "d", 1, "g-s1", Addressable("http://s/"))
ROW = SubscriberStatus("s1", 3, "True")
FOUND = [details(SUBSCRIPTION, ROW, (), 0, 10)]
PAGE = SubscribersPage(CONTRACT, lambda _, channel: FOUND if channel in ("orders", "broker:orders") else None)


class _Health:
    good = True

    def __call__(self) -> tuple[bool, Mapping[str, Any]]:
        return self.good, {"kafka": "connected"}


@pytest_asyncio.fixture
async def admin() -> AsyncIterator[tuple[str, Metrics, _Health]]:
    """A running admin server: its URL, its metrics, and the answer of its readiness."""
    metrics, ready = Metrics(), _Health()
    server = AdminServer(AdminConfig("127.0.0.1", free_port()), metrics, _Health(), ready, PAGE)
    await server.start()
    yield f"http://127.0.0.1:{server.config.port}", metrics, ready
    await server.stop(5)


@pytest.mark.asyncio
async def test_metrics_are_served_in_the_text_format(admin: tuple[str, Metrics, _Health]) -> None:
    url, metrics, _ = admin
    metrics.consumed("c", "t", 0, 1)

    async with aiohttp.ClientSession() as client, client.get(f"{url}/metrics") as answer:
        text = await answer.text()

    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"eventing_kafka_consumed_msg_count", "process_cpu_seconds"} <= names


@pytest.mark.asyncio
async def test_health_pages_show_the_health_of_the_process(admin: tuple[str, Metrics, _Health]) -> None:
    url, _, ready = admin

    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ready", "kafka": "connected"})
        ready.good = False
        async with client.get(f"{url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (503, {"status": "not ready", "kafka": "connected"})
        async with client.get(f"{url}/healthz") as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "ok")
        async with client.get(url) as answer:
            assert "/metrics" in await answer.text()
        async with client.post(f"{url}/metrics") as answer:
            assert answer.status == 405


@pytest.mark.asyncio
async def test_subscribers_with_and_without_statistics(admin: tuple[str, Metrics, _Health]) -> None:
    url, _, _ = admin
    plain = {"uid": "s1", "observedGeneration": 3, "ready": "True", "message": ""}

    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/subscribers/demo/orders") as answer:
            assert (answer.status, await answer.json()) == (200, {"subscribers": [plain]})
        for path in ("orders?wide", "broker:orders?wide=1&x=y"):
            async with client.get(f"{url}/subscribers/demo/{path}") as answer:
                assert answer.status == 200
                (row,) = (await answer.json())["subscribers"]
                assert row.items() >= {**plain, "group": "g-s1", "lastError": None}.items()
        async with client.get(f"{url}/subscribers/demo/nothing?wide") as answer:
            assert (answer.status, await answer.json()) == (404, {"error": "there is no channel demo/nothing"})
        CONTRACT.change(loaded=False)
        async with client.get(f"{url}/subscribers/demo/orders?wide") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        CONTRACT.change(loaded=True)


@pytest.mark.asyncio
async def test_busy_port_is_an_error_with_a_hint() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = AdminServer(AdminConfig("127.0.0.1", port), Metrics(), _Health(), _Health(), PAGE)

        with pytest.raises(
            PenstockError, match=f"127.0.0.1:{port}: address already in use. Choose another with PENSTOCK_ADMIN_PORT"
        ):
            await server.start()


@pytest.mark.asyncio
async def test_port_0_starts_no_server() -> None:
    server = AdminServer(AdminConfig("127.0.0.1", 0), Metrics(), _Health(), _Health(), PAGE)

    await server.start()
    await server.stop(1)


@pytest.mark.asyncio
async def test_what_others_count_from_its_start_on_is_in_the_first_scrape(tmp_path: Path) -> None:
    """The other process is older, so what it had counted before is not part of the sums."""
    path, metrics = str(tmp_path / "2.sock"), Metrics()
    other = AdminServer(AdminConfig(path=path, began_at=1.0), metrics, _Health(), _Health(), PAGE)
    config = AdminConfig("127.0.0.1", free_port(), began_at=5.0)
    first = AdminServer(config, Metrics(), _Health(), _Health(), PAGE, others=Others({2: path}, 5.0))
    metrics.request(202)
    await other.start()
    await first.start()
    metrics.request(202)
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{config.port}/metrics") as answer:
        text = await answer.text()
    await first.stop(5)
    await other.stop(5)
    assert 'penstock_ingress_requests_total{code="202"} 1.0' in text


class _Console:
    """Of which it counts how often it was told that the process is about to end."""

    leaves = 0

    def add_to(self, router: UrlDispatcher) -> None:
        router.add_get("/", self._page)

    async def _page(self, _request: Request) -> Response:
        return Response(text="console")

    async def leave(self) -> None:
        self.leaves += 1

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.asyncio
async def test_no_console_starts_anything_while_the_process_ends(is_open: bool) -> None:
    """Also one that is made for the first page that somebody opens then."""
    console, makes = _Console(), iter([False, True])

    async def make() -> Any:
        if not next(makes):
            raise OSError("too many open files")
        return console

    config = AdminConfig("127.0.0.1", free_port())
    server = AdminServer(config, Metrics(), _Health(), _Health(), PAGE, console=make)
    await server.start()
    url = f"http://127.0.0.1:{config.port}"
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):  # and the next one is made again
            await client.post(url)
        if is_open:
            assert await (await client.get(url)).text() == "console"
        assert console.leaves == 0
        await server.leave()
        assert await (await client.get(url)).text() == "console"
    assert console.leaves == 1
    await server.stop(5)
