"""Elects one controller of a cluster: the holder of a Lease, once it also has the lock in Kafka.

    Lease: not held -> held -> join the lock group -> lock held -> leads
              ^         `-> not renewed for 10 s, or another's: leave the lock group; next time, join it with a new lock

The Lease is what Kubernetes shows and what keeps candidates apart that do not reach Kafka. Kafka cannot see it. So the
lock fences what is written to Kafka, as it does without a cluster; and the Lease, judged by a clock that runs on while
the process is stopped, fences what is written to the API server. Event loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from controller.election import Election
from controller.kube.api_server import ApiServer, Json
from controller.kube.errors import ASK_DOCTOR, CONFLICT, NOT_FOUND, ApiError
from controller.kube.lease import LeaseView, Move, lease_object, next_move, read_lease
from controller.model import Trouble
from controller.timing import RENEW_LIMIT_S, RETRY_S
from tables.clock import now_s

log = structlog.get_logger(__name__)


class LeaseElection:
    """See `controller.election.Election`."""

    def __init__(
        self,
        api: ApiServer,
        name: str,
        me: str,
        make_lock: Callable[[Callable[[bool], None]], Election],
        changed: Callable[[bool], None],
        crashed: Callable[[BaseException], None],
        lock_stop_s: float,
    ) -> None:
        """`name`: of the Lease, in the namespace of `api`. `me`: no two processes have the same."""
        self._api = api
        self._name = name
        self._me = me
        self._make_lock = make_lock
        self._changed = changed
        self._crashed = crashed
        self._lock_stop_s = lock_stop_s
        self._lock: Election | None = None
        self._task: asyncio.Task[None] | None = None
        self._lease: LeaseView | None = None
        self._seen_s = 0.0  #: when the Lease was first seen as it is
        self._renewed_s: float | None = None  #: when the request was made that renewed it last; None = not held
        self._terms = 0
        #: why the Lease could not be read or written at the last try; None = it could
        self.problem: str | None = None
        self._problem_since = 0.0  #: Unix seconds

    def troubles(self) -> list[Trouble]:
        """Returns why the Lease could not be read or written at the last try, as long as it cannot."""
        name = f"{self._api.namespace}/{self._name}"
        return [Trouble("lease", name, self._problem_since, self.problem, stops=True)] if self.problem else []

    @property
    def has_lease(self) -> bool:
        """Whether this process has the Lease, as far as it knows."""
        return self._renewed_s is not None and now_s() - self._renewed_s < RENEW_LIMIT_S

    @property
    def held(self) -> bool:
        """Whether this process has the Lease and the lock, as far as it knows."""
        return self.has_lease and self._lock is not None and self._lock.held

    @property
    def term(self) -> int:
        """How often it got the lock while it had the Lease."""
        return self._terms

    def start(self) -> None:
        """Start; returns at once."""
        self._task = asyncio.create_task(self._run(), name="lease")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._crashed(problem)

    async def stop(self, limit_s: float) -> None:
        """Leave the lock group, then give up the Lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        had = self.has_lease
        await self._lose("stopped")
        if had:
            try:
                async with asyncio.timeout(limit_s):
                    await self._put("", taken=False)
            except (ApiError, TimeoutError) as problem:
                log.info("the Lease could not be released, and expires", lease=self._name, reason=str(problem))

    async def confirm(self) -> bool:
        """Returns whether Kafka confirms the lock, and the Lease is not about to expire."""
        return self.has_lease and self._lock is not None and await self._lock.confirm()

    # -- the Lease

    async def _run(self) -> None:
        while True:
            if self._renewed_s is not None and not self.has_lease:
                await self._lose("the Lease was not renewed in time")
            try:
                await self._step()
                self.problem = None
            except ApiError as problem:
                if problem.status == CONFLICT:  # somebody was faster; read it again
                    log.debug("another process has changed the Lease", lease=self._name)
                elif str(problem) != self.problem:
                    self._problem_since = self._problem_since if self.problem else time.time()
                    self.problem = str(problem)
                    log.warning(
                        "the Lease cannot be renewed or read", lease=self._name, reason=str(problem), hint=ASK_DOCTOR
                    )
            await asyncio.sleep(RETRY_S)

    async def _step(self) -> None:
        await self._read()
        move = next_move(self._lease, self._me, now_s() - self._seen_s)
        if move is Move.WAIT:
            if self._renewed_s is not None:
                assert self._lease is not None  # without one, the move is to create it
                await self._lose(f"{self._lease.holder} has it")
            return
        asked_s = now_s()
        await self._put(self._me, taken=move is not Move.RENEW)
        if self._renewed_s is None:
            log.info("this controller holds the Lease", lease=self._name, namespace=self._api.namespace)
        self._renewed_s = asked_s
        if self._lock is None:
            self._lock = self._make_lock(self._on_lock)
            self._lock.start()

    async def _read(self) -> None:
        try:
            lease: LeaseView | None = read_lease(await self._api.lease.get(self._path))
        except ApiError as problem:
            if problem.status != NOT_FOUND:
                raise
            lease = None
        self._see(lease)

    async def _put(self, holder: str, *, taken: bool) -> None:
        body = lease_object(self._api.namespace, self._name, holder, time.time(), self._lease, taken=taken)
        if self._lease is None:
            answer: Json = await self._api.lease.request("POST", self._path.rpartition("/")[0], {}, body)
        else:
            answer = await self._api.lease.request("PUT", self._path, {}, body)
        self._see(read_lease(answer))

    def _see(self, lease: LeaseView | None) -> None:
        if lease is None or self._lease is None or lease.version != self._lease.version:
            self._seen_s = now_s()
        self._lease = lease

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._api.namespace}/leases/{self._name}"

    async def _lose(self, why: str) -> None:
        """Count the Lease as lost, and leave the lock group. The next term begins with a new lock."""
        if self._renewed_s is not None:
            log.info("this controller no longer holds the Lease", lease=self._name, reason=why)
        self._renewed_s = None
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.stop(self._lock_stop_s)

    def _on_lock(self, held: bool) -> None:
        self._terms += held
        self._changed(held)
