"""The console in a real browser, over an installation that the test changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from playwright.async_api import Page, async_playwright

from knative.contract.records import TRIGGER
from knative.filters import from_json
from tests.support.chromium import find_chromium
from tests.support.console import SUBSCRIPTION, MemoryReads, serving_console, worker
from web.console.limits import Limits

_LIMIT_S = 180.0
_LINK = "document.querySelector('[data-link]').dataset.link"
_HIDE = (
    "Object.defineProperty(document, 'hidden', {value: %s, configurable: true}); "
    "document.dispatchEvent(new Event('visibilitychange'))"
)
_EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "order.paid"}'


@dataclass
class _Watched:
    """A page, what it complained about in the console of the browser, and the addresses that it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def wait_for(self, condition: str) -> None:
        """Until an expression of JavaScript is true. Playwright's own way needs eval, which the pages forbid."""
        async with asyncio.timeout(_LIMIT_S):
            while not await self.page.evaluate(condition):  # it is in another process
                await asyncio.sleep(0.05)


@asynccontextmanager
async def _watched_page(*, scripts: bool = True) -> AsyncIterator[_Watched]:
    """A page in a browser of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        try:
            context = await browser.new_context(java_script_enabled=scripts)
            page = await context.new_page()
            page.set_default_timeout(_LIMIT_S * 1000)
            watched = _Watched(page)
            page.on("console", lambda message: watched.complaints.append(message.text))
            page.on("pageerror", lambda problem: watched.complaints.append(str(problem)))
            page.on("request", lambda request: watched.requests.append(request.url))
            yield watched
        finally:
            await browser.close()


@pytest.mark.asyncio
async def test_page_follows_what_happens_and_rests_in_the_background() -> None:
    reads = MemoryReads()
    async with asyncio.timeout(_LIMIT_S), serving_console(reads) as url, _watched_page() as watched:
        await watched.page.goto(url)
        await watched.wait_for(f"{_LINK} === 'live'")
        reads.workers = []
        await watched.wait_for("document.querySelector('#live .mark.unknown') !== null")
        await watched.page.evaluate(_HIDE % "true")
        assert await watched.page.evaluate(_LINK) == "resting"
        await asyncio.sleep(2)  # more than the ten intervals after which the console forgets
        taken = reads.taken
        await asyncio.sleep(1)
        assert reads.taken == taken
        reads.workers = [worker()]
        await watched.page.evaluate(_HIDE % "false")
        await watched.wait_for("document.querySelector('#live .mark.unknown') === null")
        assert await watched.page.evaluate(_LINK) == "live"
    assert watched.complaints == []
    assert all(request.startswith(url) for request in watched.requests)


@pytest.mark.asyncio
@pytest.mark.parametrize("scripts", [True, False])
async def test_forms_work_with_and_without_scripts(scripts: bool) -> None:
    trigger = replace(SUBSCRIPTION, kind=TRIGGER, filter=from_json({"prefix": {"type": "order."}}))
    reads = MemoryReads(subscriptions=[trigger], workers=[worker(trigger)])
    async with asyncio.timeout(_LIMIT_S), serving_console(reads) as url, _watched_page(scripts=scripts) as watched:
        page = watched.page
        await page.goto(f"{url}/trigger/demo/billing")
        await page.fill("#event", _EVENT)
        await page.click("button:has-text('Explain')")
        await page.wait_for_selector("text=The event matches")
        assert await page.input_value("#event") == _EVENT
        await page.goto(url)
        await page.fill("#q", "nothing of this name")
        await page.press("#q", "Enter")
        await page.wait_for_selector("text=No subscriptions or triggers match.")
        await page.goto(url)
        await page.select_option("#show", "worse")
        if not scripts:
            await page.click("button:has-text('Show')")
        await page.wait_for_url("**/?*show=worse*")
    assert watched.complaints == []


@pytest.mark.asyncio
async def test_people_log_in_and_a_session_that_ends_is_noticed() -> None:
    serving = serving_console(tokens=["anna"], limits=Limits(every_s=0.1, session_s=5))
    async with asyncio.timeout(_LIMIT_S), serving as url, _watched_page() as watched:
        page = watched.page
        await page.goto(f"{url}/subscription/demo/billing")
        await page.fill("#token", "bob")
        await page.click("button.main")
        await page.wait_for_selector("text=This is not a valid token.")
        await page.fill("#token", "anna")
        await page.click("button.main")
        await page.wait_for_url(f"{url}/subscription/demo/billing")
        await watched.wait_for(f"{_LINK} === 'live'")
        await watched.wait_for(f"{_LINK} === 'lost'")
        await page.reload()
        await page.wait_for_selector("#token")
