"""A headless Chromium for files: tests of the report page, and measurements.

    with Chromium() as browser:
        page = browser.open(path)            # waits until the page says data-ready on <html>
        page.evaluate("document.title")
        assert not page.complaints and not page.requests

Does not reach the network: no name resolves, and every request except the page itself is recorded.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, ViewportSize, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIMIT_S = 180.0


class ChromiumError(AssertionError):
    """The browser did not do what it was asked for; the message says what."""


def find_chromium() -> str:
    """The program. Raises ChromiumError with a hint if there is none."""
    for program in filter(None, map(shutil.which, _NAMES)):
        return program
    raise ChromiumError("Chromium is not installed. Debian, Ubuntu: apt-get install chromium.")


class Page:
    """One loaded page. `complaints`: errors and warnings of console, log and scripts; `requests`: what it asked for."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._context, self._page = context, context.new_page()
        self._page.set_default_timeout(_LIMIT_S * 1e3)
        self._page.on("console", self._says)
        self._page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self._page.on("request", self._asks)
        self._devtools = context.new_cdp_session(self._page)
        self.call("Performance.enable", timeDomain="threadTicks")

    def _says(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def _asks(self, request: Request) -> None:
        if not request.url.startswith(("data:", "about:")):
            self.requests.append(request.url.partition("#")[0])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, for this page."""
        answer: dict[str, Any] = self._devtools.send(method, params)
        return answer

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for. Raises ChromiumError when it throws."""
        # As the tools of the browser do it: the page forbids eval, and may be opened without scripts.
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ChromiumError(f"{expression}: {details.get('exception', {}).get('description') or details['text']}")
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)

    def click(self, x: float, y: float) -> None:
        """The left button, at a place in the window."""
        self._page.mouse.click(x, y)

    def metric(self, name: str) -> float:
        """A figure of the browser's own since the page was opened: TaskDuration (CPU seconds), JSHeapUsedSize, ..."""
        metrics = {metric["name"]: metric["value"] for metric in self.call("Performance.getMetrics")["metrics"]}
        return float(metrics[name])

    def close(self) -> None:
        self._context.close()

    def go(self, url: str, ready: str) -> None:
        """Load a page and wait until the expression is true."""
        self._page.goto(url)
        end_s = time.monotonic() + _LIMIT_S
        while not self.evaluate(ready):
            if time.monotonic() > end_s or self.complaints:
                raise ChromiumError(f"{url} is not ready; it says: {self.complaints}")
            time.sleep(0.02)
        self.requests.remove(url.partition("#")[0])


class Chromium:
    """One browser process."""

    def __enter__(self) -> Chromium:
        self._playwright = sync_playwright().start()
        arguments = ["--no-sandbox", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND"]
        self._browser = self._playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, theme: Literal["light", "dark"] | None = None,
        javascript: bool = True, fragment: str = "",
    ) -> Page:  # fmt: skip
        """Load a file and wait until its scripts are done (`data-ready`), or just loaded without `javascript`."""
        size: ViewportSize = {"width": width, "height": height}
        context = self._browser.new_context(
            viewport=size, is_mobile=width < 500, color_scheme=theme, java_script_enabled=javascript
        )
        page = Page(context)
        done = "document.documentElement?.dataset.ready === '1'" if javascript else "document.readyState === 'complete'"
        page.go(path.absolute().as_uri() + fragment, done)
        return page
