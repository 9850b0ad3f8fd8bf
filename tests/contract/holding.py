"""A page whose requests wait until the test has them answered."""

from __future__ import annotations

from functools import partial
from typing import Any

from faust.web import View

from tests.support.processes import wait_until
from tests.support.webapp import LIMIT_S, HubApp, RunningWeb
from web.http.raw_request import RawRequest

POST = b"POST /held HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%s"
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class Held(View):
    """Callback entry: keeps connections until told."""

    waiting: list[tuple[Any, bool]]

    async def get(self, request: Any) -> Any:
        """An ordinary answer beside it."""
        return self.text("plain")

    def post_raw(self, conn: Any, info: Any, request: RawRequest) -> None:
        """Answered later."""
        if request.body == b"fail":
            raise RuntimeError("secret detail")
        self.waiting.append((conn, request.keep))

    async def post(self, request: Any) -> Any:
        """Never called on our driver."""
        return self.text("not raw")


class HeldRequests:
    """Those to `/held` of an app that `setup` has registered it on."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, bool]] = []

    def setup(self, app: HubApp) -> None:
        """Register the page."""
        app.page("/held")(type("HeldHere", (Held,), {"waiting": self.waiting}))

    def wait_for(self, count: int) -> None:
        """Until so many requests are held."""
        wait_until(f"{count} requests are held", lambda: len(self.waiting) >= count, LIMIT_S)

    def answer(self, web: RunningWeb, count: int = 1) -> None:
        """Answer so many, in the order in which they came, as soon as all are held."""
        self.wait_for(count)
        for _ in range(count):
            conn, keep = self.waiting.pop(0)
            web.call(partial(conn.finish, ANSWER, keep))
