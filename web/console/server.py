"""The console on the admin server: pages, their live streams, forms, the login, and the files that pages load.

    GET  page                              the whole page
    GET  page, Accept: text/event-stream   its live part, again each time that it changes
    POST page                              a form of it: 303 to another page, or the same page with an answer

Every request passes `safety` first. Event loop only; templates are filled in a thread.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

import structlog
from aiohttp import web as http

from knative.errors import NotReadyError, PenstockError, UsageError
from web.console import safety
from web.console.acts import Acts
from web.console.assets import assets, digest
from web.console.limits import Limits
from web.console.page import Ask, NotThere, Page, Seen, Values
from web.console.pages import all_pages
from web.console.safety import Mode
from web.console.sessions import Session, Sessions, is_form_of
from web.console.snapshots import Snapshots
from web.console.state import Reads
from web.ingress.senders import Guesses

log = structlog.get_logger(__name__)

_Handler = Callable[[http.Request], Awaitable[http.StreamResponse]]
_FAILED = {"status": 500, "what": "The console cannot show this page.", "hint": "The log of the worker has the reason."}
_YEAR = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """What it may do. `secure`: the port speaks TLS."""

    mode: Mode
    instance: str
    port: int
    has_tokens: bool = False  #: people log in
    secure: bool = False
    bodies: bool = False  #: data of events is shown in the mode `read` too
    limits: Limits = field(default_factory=Limits)

    @property
    def cookie(self) -> str:
        """Its name. Consoles at several ports of a host share their cookies."""
        return f"{'__Host-' if self.secure else ''}penstock-{self.port}"


class Refused(Exception):
    """The request gets an error page: a status, and sentences for people."""

    def __init__(self, status: HTTPStatus, what: str, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(what)
        self.status, self.what, self.hint, self.retry_after_s = status, what, hint, retry_after_s


@dataclass(frozen=True, slots=True)
class _Live:
    """The live part of a page: what it is made of, and the event with it."""

    template: str
    values: Values
    event: bytes


class Console:
    """The console of a process. Call `add_to` before the server starts, `leave` before the process ends, and `stop`
    when the server stops. With `config.has_tokens`, `sessions` has the tokens."""

    def __init__(self, config: ConsoleConfig, reads: Reads, sessions: Sessions, acts: Acts) -> None:
        self.config = config
        self._reads, self._sessions, self._acts = reads, sessions, acts
        self._snapshots = Snapshots(reads, config.limits.every_s)
        self._pages = all_pages()
        self._guesses = Guesses()
        #: Without tokens everybody on this machine is the same person.
        self._everybody = Session("everybody on this machine", b"", math.inf)
        self._tabs = 0
        self._rendered: dict[tuple[object, ...], asyncio.Task[_Live]] = {}  # live parts of the present state
        self._rendered_of = 0
        self._stopping = asyncio.Event()

    def add_to(self, router: http.UrlDispatcher) -> None:
        """Add all pages to `router`."""
        router.add_get("/assets/{digest}/{name}", self._asset)
        router.add_get("/login", self._safely(self._login_page))
        router.add_post("/login", self._safely(self._log_in))
        router.add_post("/logout", self._safely(self._log_out))
        for page in self._pages:
            router.add_get(page.path, self._safely(self._page(page)))
            if page.post is not None:
                router.add_post(page.path, self._safely(self._form(page)))
            if page.data is not None:
                router.add_get(f"{page.path}.json", self._safely(self._data(page.data)))
        router.add_get("/{address:.*}", self._safely(self._no_page))

    def stop(self) -> None:
        """End the streams of pages that are open."""
        self._stopping.set()
        self._snapshots.forget()

    async def leave(self) -> None:
        """The process is about to end: what people have started ends early. Returns when it has, or after a limit."""
        await self._acts.leave()

    # -- what every request passes

    def _safely(self, handle: _Handler) -> _Handler:
        async def handler(request: http.Request) -> http.StreamResponse:
            try:
                problem = safety.host_problem(request.headers.get("Host"), self.config.has_tokens)
                if problem is not None:
                    raise Refused(HTTPStatus.MISDIRECTED_REQUEST, problem)
                if request.method == "POST":
                    self._check_origin(request)
                    request = request.clone(client_max_size=self.config.limits.form_bytes_max)
                return await handle(request)
            except NotThere as problem:
                return await self._error(request, Refused(HTTPStatus.NOT_FOUND, str(problem)))
            except PenstockError as problem:
                return await self._error(request, Refused(_status_of(problem), problem.what, problem.hint))
            except Refused as problem:
                return await self._error(request, problem)
            except (http.HTTPException, OSError):  # a redirect, a form that is too large, or a browser that is gone
                raise
            except Exception:
                log.exception("the console cannot show a page", path=request.path)
                return await self._answer(request, "problem.html", _FAILED, None, 500)

        return handler

    def _check_origin(self, request: http.Request) -> None:
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        problem = safety.origin_problem(origin, site, request.scheme, request.host)
        if problem is not None:
            raise Refused(HTTPStatus.FORBIDDEN, problem, "Open the page in the console, and send its form again.")

    def _session(self, request: http.Request) -> Session | None:
        if not self.config.has_tokens:
            return self._everybody
        return self._sessions.find(request.cookies.get(self.config.cookie), time.time())

    async def _error(self, request: http.Request, problem: Refused) -> http.Response:
        values = {"status": problem.status.value, "what": problem.what, "hint": problem.hint}
        answer = await self._answer(request, "problem.html", values, None, status=problem.status)
        if problem.retry_after_s:
            answer.headers["Retry-After"] = str(math.ceil(problem.retry_after_s))
        return answer

    async def _answer(
        self, request: http.Request, template: str, values: Values, page: Page | None, status: int = 200
    ) -> http.Response:
        context = {**self._context(request, page), **values}
        text = await asyncio.to_thread(_render, template, context)
        return http.Response(text=text, status=status, content_type="text/html", headers=safety.PAGE_HEADERS)

    def _context(self, request: http.Request, page: Page | None) -> dict[str, object]:
        session = self._session(request)
        return {
            "page": page,
            "pages": [entry for entry in self._pages if entry.nav is not None] if session is not None else [],
            "url": str(request.rel_url),
            "instance": self.config.instance,
            "mode": self.config.mode.value,
            "who": session.name if session is not None and self.config.has_tokens else None,
            "form_token": session.form_token if session is not None else None,
        }

    # -- pages

    async def _no_page(self, _request: http.Request) -> http.StreamResponse:
        raise Refused(HTTPStatus.NOT_FOUND, "There is no page at this address.")

    def _page(self, page: Page) -> _Handler:
        async def handler(request: http.Request) -> http.StreamResponse:
            session = self._session(request)
            streams = page.live and request.method == "GET" and "text/event-stream" in request.headers.get("Accept", "")
            if session is None:
                if streams:
                    raise Refused(HTTPStatus.UNAUTHORIZED, "The session has ended.")
                where = http.HTTPSeeOther(f"/login?{urlencode({'path': str(request.rel_url)})}")
                where.headers.update(safety.PAGE_HEADERS)
                raise where
            if streams:
                return await self._stream(request, page)
            values = await _values(page, await self._ask(request, session))
            return await self._answer(request, page.template, values, page)

        return handler

    def _data(self, read: Callable[[Ask], Awaitable[bytes]]) -> _Handler:
        async def handler(request: http.Request) -> http.StreamResponse:
            session = self._session(request)
            if session is None:
                raise Refused(HTTPStatus.UNAUTHORIZED, "The session has ended.")
            content = await read(await self._ask(request, session))
            answer = http.Response(body=content, content_type="application/json", headers=safety.PAGE_HEADERS)
            answer.enable_compression()
            return answer

        return handler

    async def _ask(
        self, request: http.Request, session: Session, form: Mapping[str, str] | None = None, *, is_live: bool = False
    ) -> Ask:
        return Ask(
            state=await self._snapshots.get(),
            reads=self._reads,
            mode=self.config.mode,
            who=session.name,
            limits=self.config.limits,
            acts=self._acts,
            path=request.match_info,
            query=request.query,
            form=form or {},
            has_bodies=self.config.bodies or self.config.mode is Mode.WRITE,
            is_live=is_live,
        )

    def _form(self, page: Page) -> _Handler:
        async def handler(request: http.Request) -> http.StreamResponse:
            assert page.post is not None, "only pages with forms have this handler"
            session = self._session(request)
            if session is None:
                raise Refused(HTTPStatus.UNAUTHORIZED, "The session has ended.", "Log in, and send the form again.")
            form = await _fields(request)
            if not is_form_of(session, form.pop("form_token", "")):
                what = "This form belongs to a session that has ended."
                raise Refused(HTTPStatus.FORBIDDEN, what, "Open the page again, and send its form again.")
            if page.writes and self.config.mode is not Mode.WRITE:
                what = "This console is read-only."
                raise Refused(HTTPStatus.FORBIDDEN, what, "Set PENSTOCK_CONSOLE=write to allow changes.")
            ask = await self._ask(request, session, form)
            outcome = await page.post(ask)
            self._rendered.clear()  # a live part from before would hide what this has begun
            if isinstance(outcome, Seen):
                raise http.HTTPSeeOther(outcome.path)
            return await self._answer(request, page.template, {**await _values(page, ask), **outcome}, page)

        return handler

    # -- live

    async def _stream(self, request: http.Request, page: Page) -> http.StreamResponse:
        limits = self.config.limits
        if self._tabs >= limits.tabs_max:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many pages are open.", "Close some.", limits.every_s)
        stream = http.StreamResponse(headers={**safety.PAGE_HEADERS, "Content-Type": "text/event-stream"})
        await stream.prepare(request)
        self._tabs += 1
        sent: _Live | None = None
        try:
            while not self._stopping.is_set() and (session := self._session(request)) is not None:
                live = await self._live_part(request, page, session, sent)
                is_same = sent is not None and sent.event == live.event
                async with asyncio.timeout(10 * limits.every_s):  # a browser that no longer reads
                    # A comment, if nothing has changed, shows that the connection is alive.
                    await stream.write(b":\n\n" if is_same else live.event)
                sent = live
                await self._next_turn()
        except (TimeoutError, ConnectionError):
            log.debug("a connection to a page of the console has ended", path=request.path)
        finally:
            self._tabs -= 1
            if not self._tabs:
                self._rendered.clear()
        return stream

    async def _next_turn(self) -> None:
        """Wait for the next multiple of the interval, so that all tabs get the same state."""
        every_s = self.config.limits.every_s
        wait_s = every_s - time.monotonic() % every_s
        try:
            async with asyncio.timeout(wait_s):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _live_part(self, request: http.Request, page: Page, session: Session, sent: _Live | None) -> _Live:
        """Returns the live part of a page; tabs that show the same page share it. `sent`: the last one of this tab."""
        ask = await self._ask(request, session, is_live=True)
        if self._rendered_of != self._snapshots.number:
            self._rendered.clear()
            self._rendered_of = self._snapshots.number
        key = (str(request.rel_url), session.form_token)
        rendering = self._rendered.get(key)
        if rendering is None:
            rendering = self._rendered[key] = asyncio.create_task(self._render_live(request, page, ask, sent))
        return await asyncio.shield(rendering)  # other tabs wait for it too

    async def _render_live(self, request: http.Request, page: Page, ask: Ask, last: _Live | None) -> _Live:
        """Returns `last`, if it is made of the same."""
        try:
            template, values = page.template, await _values(page, ask)
        except NotThere as problem:
            template, values = "problem.html", {"status": 404, "what": str(problem), "hint": ""}
        except PenstockError as problem:
            template, values = "problem.html", {"status": 503, "what": problem.what, "hint": problem.hint}
        except Exception:
            log.exception("the console cannot show a page", path=request.path)
            template, values = "problem.html", _FAILED
        values = {**self._context(request, page), **values}
        if last is not None and (last.template, last.values) == (template, values):
            return last
        return _Live(template, values, await asyncio.to_thread(_event, template, values))

    # -- login

    async def _login_page(self, request: http.Request) -> http.StreamResponse:
        if self._session(request) is not None:
            raise http.HTTPSeeOther("/")
        values = {"problem": None, "path": request.query.get("path", "/")}
        return await self._answer(request, "login.html", values, None)

    async def _log_in(self, request: http.Request) -> http.StreamResponse:
        form = await _fields(request)
        id_ = self._sessions.log_in(form.get("token", ""), time.time())
        if id_ is None:
            wait_s = self._guesses.wait_s(request.remote or "", time.monotonic())
            if wait_s:
                hint = f"Try again in {math.ceil(wait_s)} s."
                raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many tokens were not valid.", hint, wait_s)
            values = {"problem": "This is not a valid token.", "path": form.get("path", "/")}
            return await self._answer(request, "login.html", values, None, 401)
        answer = http.HTTPSeeOther(safety.path_after_login(form.get("path", "/")))
        answer.headers.update(safety.PAGE_HEADERS)
        answer.set_cookie(
            self.config.cookie, id_, path="/", httponly=True, samesite="Strict", secure=self.config.secure
        )
        raise answer

    async def _log_out(self, request: http.Request) -> http.StreamResponse:
        session, form = self._session(request), await _fields(request)
        if session is not None and is_form_of(session, form.get("form_token", "")):
            self._sessions.log_out(request.cookies.get(self.config.cookie))
        raise http.HTTPSeeOther("/login")

    async def _asset(self, request: http.Request) -> http.Response:
        asset = (await asyncio.to_thread(assets)).get(request.match_info["name"])  # the first call compresses all
        if asset is None or request.match_info["digest"] != digest():
            return http.Response(status=404, headers=safety.HEADERS)
        headers = {
            **safety.HEADERS,
            "Cache-Control": _YEAR,
            "Content-Type": asset.content_type,
            "Vary": "Accept-Encoding",
        }
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return http.Response(body=asset.content, headers=headers)
        return http.Response(body=asset.compressed, headers={**headers, "Content-Encoding": "gzip"})


def _status_of(problem: PenstockError) -> HTTPStatus:
    if isinstance(problem, UsageError):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(problem, NotReadyError) else HTTPStatus.INTERNAL_SERVER_ERROR


async def _values(page: Page, ask: Ask) -> Values:
    """Returns what its template shows. `outage`: the state while Kafka does not answer; None = it does."""
    return {**await page.build(ask), "outage": ask.state if ask.state.kafka_away else None}


def _render(template: str, values: Values, *, live: bool = False) -> str:
    from web.console.rendering import render  # Jinja takes 45 ms and 4 MB: only where somebody looks

    return render(template, values, live=live)


async def _fields(request: http.Request) -> dict[str, str]:
    """Returns the first value of each field of a form."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The request is not a form of the console.")
    if (request.charset or "utf-8").lower() != "utf-8":  # others do not exist, or have text that UTF-8 cannot hold
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The form is not UTF-8.")
    try:
        fields = await request.post()
    except http.HTTPRequestEntityTooLarge:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.") from None
    except (ValueError, UnicodeDecodeError):
        raise Refused(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from None
    return {name: value for name in fields if isinstance(value := fields.getone(name), str)}


def _event(template: str, values: Values) -> bytes:
    """Returns a live part as a server-sent event."""
    lines = _render(template, values, live=True).split("\n")
    return "".join(f"data: {line}\n" for line in lines).encode() + b"\n"
