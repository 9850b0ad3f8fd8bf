"""The console over sockets: what it answers to whom, and its live streams."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
import threading
from pathlib import Path

import aiohttp
import pytest

from tests.support.certificates import Authority
from tests.support.console import CHANNEL, SUBSCRIPTION, MemoryReads, serving_console
from tests.support.waiting import until
from web.console.assets import assets
from web.console.limits import Limits
from web.console.page import Values
from web.console.safety import HEADERS
from web.console.server import _event

_STREAM = {"Accept": "text/event-stream"}
_LIMIT_S = 60.0


async def _read_event(answer: aiohttp.ClientResponse) -> str:
    """The next event that is not empty."""
    async with asyncio.timeout(_LIMIT_S):
        while True:
            lines = []
            while (line := (await answer.content.readline()).decode().rstrip("\n")) != "":
                lines.append(line)
            if lines[0].startswith("data: "):
                return "\n".join(line.removeprefix("data: ") for line in lines)


@pytest.mark.asyncio
async def test_page_is_whole_and_has_all_headers_of_safety() -> None:
    async with serving_console() as url, aiohttp.ClientSession() as client, client.get(url) as answer:
        text = await answer.text()

    assert answer.status == 200
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["Cache-Control"] == "no-store"
    assert ">billing</a>" in text
    assert ">orders</a>" in text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", text)


@pytest.mark.asyncio
async def test_files_are_kept_for_a_year_under_an_address_that_changes_with_them() -> None:
    async with serving_console() as url, aiohttp.ClientSession() as client:
        async with client.get(url) as answer:
            paths = re.findall(r'(?:src|href)="(/assets/[^"]+)"', await answer.text())
        assert {path.rpartition("/")[2] for path in paths} >= {"console.css", "htmx.min.js", "icon.svg"}
        for path in paths:
            async with client.get(url + path) as answer:
                assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        for path in ("/assets/0/console.css", f"{paths[0]}x", "/assets/0/..%2Fserver.py"):
            async with client.get(url + path) as answer:
                assert answer.status == 404


@pytest.mark.asyncio
async def test_files_are_compressed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them take 34 ms of CPU, in which the event loop would deliver nothing."""
    threads = []

    def compress(*_: object, **__: object) -> bytes:
        threads.append(threading.current_thread())
        return b""

    assets.cache_clear()
    monkeypatch.setattr(gzip, "compress", compress)
    try:
        async with (
            serving_console() as url,
            aiohttp.ClientSession() as client,
            client.get(f"{url}/assets/0/console.css") as answer,
        ):
            assert answer.status == 404
    finally:
        assets.cache_clear()
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.asyncio
@pytest.mark.parametrize("headers", [{}, _STREAM])
async def test_another_name_of_this_address_gets_nothing(headers: dict[str, str]) -> None:
    async with (
        serving_console() as url,
        aiohttp.ClientSession() as client,
        client.get(url, headers={**headers, "Host": "evil.example"}) as answer,
    ):
        assert answer.status == 421
        assert "billing" not in await answer.text()


@pytest.mark.asyncio
async def test_text_of_others_is_shown_and_never_run() -> None:
    evil = "<img src=x onerror=alert(1)>\"'\u202e{{7*7}}"
    reads = MemoryReads([CHANNEL], [SUBSCRIPTION], [])
    reads.channels = [type(CHANNEL)("c2", 1, "demo", evil, "t", "d", 1)]
    async with (
        serving_console(reads) as url,
        aiohttp.ClientSession() as client,
        client.get(url, params={"q": evil}) as answer,
    ):
        text = await answer.text()

    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "\\u202e{{7*7}}" in text


@pytest.mark.asyncio
async def test_page_that_does_not_exist_and_one_that_fails_say_so() -> None:
    reads = MemoryReads()
    async with serving_console(reads) as url, aiohttp.ClientSession() as client:
        reads.workers = None  # type: ignore[assignment]
        async with client.get(url) as answer:
            assert answer.status == 500
            assert "The log of the worker has the reason." in await answer.text()


@pytest.mark.asyncio
async def test_page_that_is_open_gets_what_has_changed() -> None:
    reads = MemoryReads()
    async with (
        serving_console(reads) as url,
        aiohttp.ClientSession() as client,
        client.get(url, headers=_STREAM) as answer,
    ):
        assert answer.content_type == "text/event-stream"
        first = await _read_event(answer)
        assert "Unknown" not in first
        assert "<html" not in first
        reads.workers = []
        assert "Unknown" in await _read_event(answer)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["/", "/map", "/channel/demo/orders", "/subscription/demo/billing", "/events", "/audit"]
)
async def test_page_whose_figures_stay_is_rendered_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, rendered = MemoryReads(), list[str]()

    def counting(template: str, values: Values) -> bytes:
        rendered.append(template)
        return _event(template, values)

    monkeypatch.setattr("web.console.server._event", counting)
    async with (
        serving_console(reads) as url,
        aiohttp.ClientSession() as client,
        client.get(f"{url}{path}", headers=_STREAM) as answer,
    ):
        await _read_event(answer)
        async with asyncio.timeout(_LIMIT_S):
            while reads.taken < 6:
                assert await answer.content.readuntil(b"\n\n") == b":\n\n"
        assert len(rendered) == 1, reads.taken
        reads.kafka_away = True
        assert "Kafka does not answer" in await _read_event(answer)


@pytest.mark.asyncio
async def test_tabs_share_one_state_and_none_is_taken_when_all_are_closed() -> None:
    reads = MemoryReads()
    async with serving_console(reads, limits=Limits(every_s=0.5)) as url, aiohttp.ClientSession() as client:
        answers = [await client.get(url, headers=_STREAM) for _ in range(20)]
        for answer in answers:
            await _read_event(answer)
        assert reads.taken <= 3
        for answer in answers:
            answer.close()
        await until(lambda: reads.rested)
        taken = reads.taken
        await asyncio.sleep(1.5)
        assert reads.taken == taken


@pytest.mark.asyncio
async def test_streams_are_bounded_and_end_with_the_server() -> None:
    async with aiohttp.ClientSession() as client:
        async with serving_console(limits=Limits(every_s=0.1, tabs_max=1)) as url:
            open_one = await client.get(url, headers=_STREAM)
            await _read_event(open_one)
            async with client.get(url, headers=_STREAM) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        async with asyncio.timeout(_LIMIT_S):
            while await open_one.content.readline():
                pass


@pytest.mark.asyncio
async def test_people_log_in_with_a_token_and_out_again() -> None:
    async with (
        serving_console(tokens=["anna"]) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
    ):
        origin = {"Origin": url}
        async with client.get(url) as answer:
            assert answer.url.path == "/login"
            assert "billing" not in await answer.text()
        async with client.get(url, headers=_STREAM) as answer:
            assert answer.status == 401
        async with client.post(f"{url}/login", data={"token": "bob"}, headers=origin) as answer:
            assert answer.status == 401
        async with client.post(f"{url}/login", data={"token": "anna"}) as answer:
            assert answer.status == 403  # without an origin
        data = {"token": "anna"}
        async with client.post(f"{url}/login", data=data, headers=origin, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 303
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
        async with client.get(url) as answer:
            text = await answer.text()
            assert "billing" in text
        (token,) = re.findall(r'name="form_token" value="([^"]+)"', text)
        async with client.post(f"{url}/logout", data={"form_token": "another"}, headers=origin) as answer:
            assert "billing" in await answer.text()
        async with client.post(f"{url}/logout", data={"form_token": token}, headers=origin) as answer:
            assert answer.url.path == "/login"
        async with client.get(url) as answer:
            assert answer.url.path == "/login"


@pytest.mark.asyncio
async def test_who_guesses_tokens_has_to_wait() -> None:
    async with serving_console(tokens=["anna"]) as url, aiohttp.ClientSession() as client:
        statuses = []
        for number in range(12):
            async with client.post(f"{url}/login", data={"token": str(number)}, headers={"Origin": url}) as answer:
                statuses.append(answer.status)
        assert statuses == [401] * 10 + [429] * 2
        assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.asyncio
@pytest.mark.parametrize("charset", ["nope", "raw_unicode_escape"])
async def test_form_in_another_charset_is_refused(charset: str) -> None:
    async with serving_console(tokens=["anna"]) as url, aiohttp.ClientSession() as client:
        headers = {"Origin": url, "Content-Type": f"application/x-www-form-urlencoded; charset={charset}"}
        async with client.post(f"{url}/login", data=b"token=\\ud800", headers=headers) as answer:
            assert answer.status == 415
            assert "The form is not UTF-8." in await answer.text()


@pytest.mark.asyncio
async def test_under_tls_a_session_never_leaves_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    signed = authority.sign("console")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(signed.certificate, signed.key)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    async with (
        serving_console(tokens=["anna"], tls=server) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client,
    ):
        data = {"token": "anna"}
        async with client.post(f"{url}/login", data=data, headers={"Origin": url}, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
        other = url.replace("https://", "http://")
        async with client.post(f"{url}/login", data=data, headers={"Origin": other}) as answer:
            assert answer.status == 403

    assert cookie.startswith("__Host-penstock-")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
