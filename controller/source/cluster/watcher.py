"""Keeps a store in step with the API server: list in pages, then watch, again and again until it is cancelled.

    list (pages of 500) -> watch for 20 s -> watch from there ... -> 410 -> list
                                 `-> cut, 429, 5xx, no answer: the store stays as it is, pause, watch from there
                                 `-> again and again cut before its first event -> list

Pauses grow, but only up to 2 s as long as requests are answered: then lists are all that keeps the store in step.

While the API server is away, everything that is known stays known. Event loop only.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from controller.kube.api_server import ApiServer
from controller.kube.errors import ASK_DOCTOR, FORBIDDEN, GONE, NOT_FOUND, ApiError, StreamCut
from controller.source.cluster.store import Effect, ObjectStore
from controller.timing import ABSENT_S, FIRST_PAUSE_S, LONGEST_CUT_PAUSE_S, LONGEST_PAUSE_S, WATCH_S
from knative.backoff import exponential_s

log = structlog.get_logger(__name__)

PAGE = 500
QUICK_S = 1.0  #: a stream without events that ends sooner was cut
CUTS_MAX = 3  #: after this many streams in a row that were cut before their first event, everything is listed
NOT_INSTALLED = "the API server does not have this kind"


@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed and watched: a path, such as `/apis/messaging.knative.dev/v1/subscriptions`."""

    path: str
    page: int = PAGE  #: objects in one answer
    labels: str | None = None  #: only those with these labels; None = all
    name: str | None = None  #: only the one of this name; None = all

    def __str__(self) -> str:
        return "?".join(part for part in (self.path, self.labels, self.name) if part)

    @property
    def params(self) -> dict[str, str | int]:
        """What each request for it has."""
        selectors = {"labelSelector": self.labels, "fieldSelector": self.name and f"metadata.name={self.name}"}
        return {key: selector for key, selector in selectors.items() if selector}


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How the stream of a watch ended."""

    events: int
    lasted_s: float
    cut: StreamCut | None = None  #: None = as the server ends it


def count_cuts(before: int, end: StreamEnd) -> int:
    """Returns how many streams in a row were cut before their first event. That event may be the cause: it may be too
    long for a proxy, for example. `before`: without this one. Pure."""
    too_early = not end.events and (end.cut is not None or end.lasted_s < QUICK_S)
    return before + 1 if too_early else 0


def must_list(cuts: int) -> bool:
    """Returns whether to list, because a watch from the same version would meet the same event again. Pure."""
    return cuts > 0 and cuts % CUTS_MAX == 0


class Watcher:
    """Keeps one store in step."""

    def __init__(self, api: ApiServer, collection: Collection, store: ObjectStore, changed: Callable[[], None]) -> None:
        """`changed` is called when an object has changed, when the list is complete, and when `problem` changes."""
        self.collection = collection
        self.store = store
        self.problem = ""  #: why it cannot be read now; "" = it can
        self.since = time.time()  #: Unix seconds: it can be read, or cannot be read
        self.forbidden = False  #: the reason is that this user may not
        self.absent = False  #: the reason is that its kind is not installed
        self._cut = False  #: the reason is that streams are cut, although requests are answered
        self._api = api
        self._changed = changed

    async def run(self) -> None:
        """Run until it is cancelled."""
        failures = cuts = 0
        while True:
            try:
                if not self.store.version:
                    await self._list()
                    failures = 0
                    self._answered()
                end = await self._watch()
            except ApiError as problem:
                if problem.status == GONE:
                    cuts += 1
                    self.store.version = ""
                    log.info(
                        "the resource version has expired; the objects are listed again", path=str(self.collection)
                    )
                    await asyncio.sleep(_pause_s(cuts, LONGEST_CUT_PAUSE_S))
                else:
                    failures += 1
                    await self._wait(problem, failures)
                continue
            failures, cuts = 0, count_cuts(cuts, end)
            if must_list(cuts):
                self.store.version = ""
                log.debug(
                    "watches end before their first event; the objects are listed again", path=str(self.collection)
                )
            if end.cut is not None:
                self._report(end.cut)
            if end.cut is not None or cuts:
                await asyncio.sleep(_pause_s(cuts, LONGEST_CUT_PAUSE_S))

    async def _list(self) -> None:
        self.store.begin_list()
        more: str | None = None
        while True:
            given = {**self.collection.params, "limit": self.collection.page}
            if more:
                given["continue"] = more
            more = self.store.add_page(await self._api.get(self.collection.path, given))
            if not more:
                break
        log.debug("listed", path=str(self.collection), objects=len(self.store.objects))
        self._changed()

    async def _watch(self) -> StreamEnd:
        """Read one stream until its end. Raises ApiError if there is none, or if it cannot be continued."""
        count, cut, began_s = 0, None, time.monotonic()
        params = {**self.collection.params, "resourceVersion": self.store.version}
        try:
            async with aclosing(self._api.watch(self.collection.path, params, WATCH_S)) as events:
                async for event in events:
                    effect = self.store.apply(event)
                    if effect is Effect.RELIST:
                        raise ApiError(GONE, f"watch of {self.collection.path}", "the watch cannot be continued")
                    count += 1
                    self._answered()
                    if effect is Effect.CHANGED:
                        self._changed()
        except StreamCut as problem:
            cut = problem
        end = StreamEnd(count, time.monotonic() - began_s, cut)
        if cut is None and not count_cuts(0, end):
            self._recovered()
        return end

    def _answered(self) -> None:
        """A request was answered. If streams were cut, it is over only with a stream that was not."""
        if not self._cut:
            self._recovered()

    def _recovered(self) -> None:
        if self.problem:
            log.info("the API server can be read again", path=str(self.collection))
            self.problem, self.since = "", time.time()
            self.absent = self.forbidden = self._cut = False
            self._changed()

    def _report(self, problem: ApiError) -> None:
        cut, absent = isinstance(problem, StreamCut), problem.status == NOT_FOUND
        why = NOT_INSTALLED if absent else str(problem)
        # Each stream may be cut at another place, and says so.
        if why == self.problem or (cut and self._cut):
            return
        self.since = self.since if self.problem else time.time()
        self.problem, self.absent, self._cut = why, absent, cut
        self.forbidden = problem.status == FORBIDDEN
        if absent:
            log.warning(NOT_INSTALLED, path=str(self.collection))
        else:
            log.warning(
                "the API server cannot be read; objects are kept as they were read last", reason=why, hint=ASK_DOCTOR
            )
        self._changed()

    async def _wait(self, problem: ApiError, failures: int) -> None:
        """Wait after a request that failed: the pause grows."""
        pause_s = _pause_s(failures, LONGEST_PAUSE_S)
        if problem.status == NOT_FOUND:
            self.store.absent()
            pause_s = ABSENT_S
        elif problem.status == FORBIDDEN:
            pause_s = LONGEST_PAUSE_S
        self._report(problem)
        await asyncio.sleep(max(pause_s, problem.retry_after_s))


def _pause_s(failures: int, longest_s: float) -> float:
    """Returns the pause after this many failures in a row. It is random, so that watchers do not come back together."""
    return exponential_s(max(failures - 1, 0), FIRST_PAUSE_S, longest_s) * random.uniform(0.75, 1.25)
