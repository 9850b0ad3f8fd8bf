"""A headless Chromium for tests, measurements and a look at the page: the DevTools protocol over a pair of pipes.

    with Chromium(folder) as browser:
        page = browser.open(path)            # waits until the page says data-ready on <html>
        page.evaluate("document.title")
        assert not page.complaints and not page.requests

Does not reach the network: no name resolves, and every request except the page itself is recorded.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from app.local.child_process import die_with_parent

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIMIT_S = 180.0

#: Nothing of ours is secret in there, and root (in a container) has no other way to start it.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


class ChromiumError(AssertionError):
    """The browser did not do what it was asked for; the message says what."""


def find_chromium() -> str:
    """The program. Raises ChromiumError with a hint if there is none."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise ChromiumError("Chromium is not installed. Debian, Ubuntu: apt-get install chromium.")


@dataclass
class Page:
    """One loaded page. `complaints`: errors and warnings of console, log and scripts; `requests`: what it asked for."""

    browser: Chromium
    session: str
    target: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, for this page."""
        return self.browser.call(method, params, self.session)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for. Raises ChromiumError when it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise ChromiumError(f"{expression}: {_thrown(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """A key, as if typed. `code` is the Windows key code that the browser's own shortcuts look at."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra)

    def click(self, x: float, y: float) -> None:
        """The left button, at a place in the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            pressed = 0 if kind == "mouseMoved" else 1
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=pressed)

    def metric(self, name: str) -> float:
        """A figure of the browser's own since the page was opened: TaskDuration (CPU seconds), JSHeapUsedSize, ..."""
        found = {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}
        return float(found[name])

    def close(self) -> None:
        """Done with it."""
        self.browser.call("Target.closeTarget", {"targetId": self.target})


class Chromium:
    """One browser process with a profile of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Chromium:
        self._folder.mkdir(parents=True, exist_ok=True)
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        program = [find_chromium(), *_FLAGS, f"--user-data-dir={self._folder / 'profile'}", "about:blank"]
        self._log = (self._folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(3, 4),
            preexec_fn=_on_descriptors(from_us, to_us),
        )
        os.close(from_us)
        os.close(to_us)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call("Browser.close", {})
            self._process.wait(10.0)
        except (ChromiumError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._log.close()

    def open(
        self,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        media: Mapping[str, str] | None = None,
        javascript: bool = True,
        fragment: str = "",
    ) -> Page:
        """Load a file and wait until its scripts are done (`data-ready`), or just loaded without `javascript`."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Performance.enable", timeDomain="threadTicks")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": name, "value": value} for name, value in (media or {}).items()]
        page.call("Emulation.setEmulatedMedia", features=features)
        page.call("Emulation.setScriptExecutionDisabled", value=not javascript)
        url = path.absolute().as_uri() + fragment
        page.call("Page.navigate", url=url)
        done = "document.documentElement?.dataset.ready === '1'" if javascript else "document.readyState === 'complete'"
        end_s = time.monotonic() + _LIMIT_S
        while not page.evaluate(f"location.protocol === 'file:' && {done}"):
            if time.monotonic() > end_s:
                raise ChromiumError(f"{path} was not ready within {_LIMIT_S:g} s; it said: {page.complaints}")
            if page.complaints:
                raise ChromiumError(f"{path} complains: {page.complaints}")
            time.sleep(0.02)
        page.requests.remove(url.partition("#")[0])
        return page

    def call(self, method: str, params: Mapping[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send one command and read until its answer; events on the way go to their pages."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + _LIMIT_S
        while True:
            answer = self._read(end_s, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ChromiumError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _read(self, end_s: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._from], [], [], max(0.0, end_s - time.monotonic()))
            chunk = os.read(self._from, 1 << 20) if readable else b""
            if not chunk:
                log = (self._folder / "chromium.log").read_text(errors="replace")[-2000:]
                raise ChromiumError(f"no answer to {method} within {_LIMIT_S:g} s; the browser's log ends with: {log}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: Mapping[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is None:
            return
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                page.complaints.append(" ".join(str(one.get("value", one)) for one in params["args"]))
            case "Runtime.exceptionThrown":
                page.complaints.append(_thrown(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                page.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith(("data:", "about:")):
                page.requests.append(params["request"]["url"].partition("#")[0])


def _thrown(details: Mapping[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details.get("text"))


def _on_descriptors(from_us: int, to_us: int) -> Callable[[], None]:
    """What runs in the child before the browser: it reads commands from descriptor 3 and writes answers to 4."""
    dies = die_with_parent()

    def apply() -> None:
        # First out of the way of 3 and 4 themselves, which may be one of the two.
        source, sink = fcntl.fcntl(from_us, fcntl.F_DUPFD, 10), fcntl.fcntl(to_us, fcntl.F_DUPFD, 10)
        os.dup2(source, 3)
        os.dup2(sink, 4)
        if dies is not None:
            dies()

    return apply
