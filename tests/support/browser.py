"""A headless Chromium under Playwright, for tests of the console."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from playwright.async_api import Page, async_playwright

from tests.support.chromium import find_chromium

LIMIT_MS = 60_000.0


@dataclass
class Watched:
    """A page, what it complained about in the console of the browser, and the addresses that it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def wait_for(self, condition: str) -> None:
        """Until an expression of JavaScript is true. Playwright's own way needs eval, which the pages forbid."""
        async with asyncio.timeout(LIMIT_MS / 1000):
            while not await self.page.evaluate(condition):  # it is in another process
                await asyncio.sleep(0.05)


@asynccontextmanager
async def watched_page(*, scripts: bool = True) -> AsyncIterator[Watched]:
    """A page in a browser of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        try:
            context = await browser.new_context(java_script_enabled=scripts)
            page = await context.new_page()
            page.set_default_timeout(LIMIT_MS)
            watched = Watched(page)
            page.on("console", lambda message: watched.complaints.append(message.text))
            page.on("pageerror", lambda problem: watched.complaints.append(str(problem)))
            page.on("request", lambda request: watched.requests.append(request.url))
            yield watched
        finally:
            await browser.close()
