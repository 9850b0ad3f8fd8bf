"""The console in a real browser, over an installation that the test changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from knative.contract.records import TRIGGER
from knative.filters import from_json
from tests.support.browser import watched_page
from tests.support.console import SUBSCRIPTION, MemoryReads, serving_console, worker
from web.console.limits import Limits

_LIMIT_S = 180.0
_LINK = "document.querySelector('[data-link]').dataset.link"
_HIDE = (
    "Object.defineProperty(document, 'hidden', {value: %s, configurable: true}); "
    "document.dispatchEvent(new Event('visibilitychange'))"
)
_EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "order.paid"}'


@pytest.mark.asyncio
async def test_page_follows_what_happens_and_rests_in_the_background() -> None:
    reads = MemoryReads()
    async with asyncio.timeout(_LIMIT_S), serving_console(reads) as url, watched_page() as watched:
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
    async with asyncio.timeout(_LIMIT_S), serving_console(reads) as url, watched_page(scripts=scripts) as watched:
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
    async with asyncio.timeout(_LIMIT_S), serving as url, watched_page() as watched:
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
