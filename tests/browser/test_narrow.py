"""The console in a narrow window, over an installation that is made up."""

from __future__ import annotations

import pytest
from playwright.async_api import async_playwright

from tests.browser.conftest import LIMIT_S
from tests.support.chromium import find_chromium
from tests.support.console import serving_console

pytestmark = pytest.mark.system

_WIDTH = 390


@pytest.mark.asyncio
async def test_strip_of_pages_begins_where_this_page_is() -> None:
    """`Audit` is the last of the pages, whose names do not all fit."""
    async with serving_console() as url, async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = await chromium.new_page(viewport={"width": _WIDTH, "height": 800})
        page.set_default_timeout(LIMIT_S * 1e3)
        await page.goto(f"{url}/audit")
        box = await page.locator("nav [aria-current]").bounding_box()
        await chromium.close()

    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= _WIDTH
