"""The console on an admin server of its own, over an installation that the test has made up."""

from __future__ import annotations

import hashlib
import re
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html import unescape

from aiohttp import web as http

from app.operations.console.live_map import map_of
from app.operations.contract_snapshot import Contract
from knative.contract.records import Channel, Subscription, WorkerState, WorkerStatus, WorkerSubscription
from knative.delivery.policy import Addressable
from tables.resource_status import resource_statuses
from tests.support.console_acts import MemoryActs
from tests.support.processes import free_port
from web.console.acts import Acts
from web.console.limits import Limits
from web.console.safety import Mode
from web.console.server import Console, ConsoleConfig
from web.console.sessions import Sessions
from web.console.state import Known, MapView, PartitionLag, State

CHANNEL = Channel("c1", 1, "demo", "orders", "t", "t.dlq", 2, ("orders.demo",))
SUBSCRIPTION = Subscription(
    "s1", 3, "demo", "billing", "c1", "orders", "t", "t.dlq", 2, "kafka.s1", Addressable("http://billing/")
)


def words(text: str) -> str:
    """What a person reads of a page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def worker(subscription: Subscription = SUBSCRIPTION, **changes: object) -> WorkerStatus:
    """A fresh record of a worker that serves all partitions of a subscription."""
    mine = WorkerSubscription(subscription.generation, tuple(range(subscription.partitions)), WorkerState.RUNNING)
    status = WorkerStatus("worker-1", time.time(), "all", {subscription.uid: mine})
    return replace(status, **changes)  # type: ignore[arg-type]


@dataclass
class MemoryReads:
    """`Reads`, with an installation given by hand."""

    channels: Sequence[Channel] = (CHANNEL,)
    subscriptions: Sequence[Subscription] = (SUBSCRIPTION,)
    workers: Sequence[WorkerStatus] = field(default_factory=lambda: [worker()])
    letters: dict[str, int] = field(default_factory=dict)
    partitions: Sequence[PartitionLag] | None = None
    kafka_away: bool = False
    taken: int = 0  #: states that pages asked for
    rested: int = 0

    async def state(self) -> State:
        self.taken += 1
        now_s = time.time()
        at_s = max(status.time for status in self.workers) if self.kafka_away else now_s
        here = Contract(tuple(self.channels), tuple(self.subscriptions), tuple(self.workers))
        resources = tuple(resource_statuses(here, at_s))
        return State("penstock", now_s, at_s, self.kafka_away, resources, here.workers, self.letters, None)

    async def lag(self, _subscription: Subscription) -> Known[Sequence[PartitionLag]] | None:
        return None if self.partitions is None else Known(self.partitions, time.time())

    async def map(self, state: State) -> MapView:
        return map_of(state)

    def rest(self) -> None:
        self.rested += 1


@asynccontextmanager
async def serving_console(
    reads: MemoryReads | None = None,
    mode: Mode = Mode.WRITE,
    tokens: Sequence[str] = (),
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    acts: Acts | None = None,
) -> AsyncIterator[str]:
    """The address of a console. A token is its owner's name too."""
    port, limits = free_port(), limits or Limits(every_s=0.1)
    sessions = Sessions(limits)
    sessions.names = {hashlib.sha256(token.encode()).digest(): token for token in tokens}
    config = ConsoleConfig(mode, "penstock", port, has_tokens=bool(tokens), secure=tls is not None, limits=limits)
    console = Console(config, reads or MemoryReads(), sessions, acts or MemoryActs())
    application = http.Application(client_max_size=1024)  # as the admin server
    console.add_to(application.router)
    runner = http.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await http.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{port}"
    finally:
        console.stop()
        await runner.cleanup()
