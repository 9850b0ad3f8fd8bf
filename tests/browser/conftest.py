"""One browser for the tests of this folder. A page that complains, or asks another host for anything, fails its
test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.chromium import find_chromium

LIMIT_S = 180.0
REBOUND = "rebound.example"  #: a name of somebody else that leads to this machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. Playwright runs an event loop, so it ends before tests of other files begin."""
    arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield chromium
        chromium.close()


@dataclass
class Tabs:
    """A browser of one person. `complaints`: what the console of the browser says; `refused`: that is expected, because
    the test has the server refuse or drop requests."""

    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    refused: bool = False

    def open(self, url: str) -> Page:
        """A page in a new tab."""
        page = self.context.new_page()
        page.set_default_timeout(LIMIT_S * 1e3)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a script of somebody runs: {dialog.message}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(url)
        return page


@pytest.fixture
def person(browser: Browser) -> Iterator[Callable[..., Tabs]]:
    """`person(**options of the context)`: a browser with cookies of its own."""
    everybody: list[Tabs] = []

    def arrive(**options: Any) -> Tabs:
        everybody.append(Tabs(browser.new_context(**options)))
        return everybody[-1]

    yield arrive
    for tabs in everybody:
        tabs.context.close()
        assert {host.partition(":")[0] for host in tabs.hosts} <= {"127.0.0.1", REBOUND, ""}
        if not tabs.refused:
            assert tabs.complaints == []


def eventually(page: Page, expression: str, what: str) -> Any:
    """The value of an expression of JavaScript, as soon as it is true. Playwright's own way needs eval, which the pages
    forbid."""
    end_s = time.monotonic() + LIMIT_S
    while not (value := page.evaluate(expression)):
        assert time.monotonic() < end_s, f"never so: {what}; the page shows\n{page.inner_text('main')}"
        page.wait_for_timeout(100)
    return value
