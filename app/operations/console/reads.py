"""What the console shows: the tables that every worker has in memory, and what it asks Kafka for while a page is open.

contract, statuses, traffic windows   copied on the event loop, worked out in a thread
lag, dead letters                     read from Kafka in a thread; the last answer is shown until the next one
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from app.operations.contract_snapshot import Contract
from app.operations.dead_letters.open_letters import OpenLetters
from app.operations.group_offsets import measure
from app.operations.lag import Lag
from app.timing import GLANCE_S
from knative.contract.records import Subscription
from knative.errors import PenstockError
from tables.contract_table import ContractTable
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.loop_thread import call_in_thread
from tables.resource_status import resource_statuses
from tables.status_table import FRESH_S, StatusTable
from tables.timing import ANSWER_S, SPARING_S
from tables.traffic_windows.view import TrafficRows
from tables.traffic_windows.windows import SHORT_S
from web.console.limits import Limits
from web.console.snapshots import is_old
from web.console.state import Known, MapView, PartitionLag, State
from web.console.traffic import WINDOWS, forget

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Latest(Generic[T]):
    """A value that a thread reads when somebody asks and the last one is old; one reading at a time."""

    def __init__(self, read: Callable[[], T], name: str, share: float = 1.0) -> None:
        """`share`: of a core that the readings may take; it rests longer after one that costs more."""
        self._read, self._name, self._share = read, name, share
        self._cpu_s = 0.0
        self.problem: str | None = None  #: why the last reading failed
        self._last: Known[T] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """How long nobody has asked."""
        return time.monotonic() - self._asked_s

    async def get(self, wait_s: float, *, at_once: bool = False) -> Known[T] | None:
        """Returns the last value; None: there is none yet. Waits for a new one, but no longer than `wait_s`. `at_once`:
        read even if the last one is not old."""
        self._asked_s = time.monotonic()
        if (at_once or self._is_due()) and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._renew())
        if self._reading is not None and wait_s:
            await asyncio.wait({self._reading}, timeout=wait_s)
        return self._last

    async def _renew(self) -> None:
        at_s = time.time()
        try:
            # More than all waits of a reading together: the thread goes on after this, and two must not count at once.
            self._last = Known(await call_in_thread(self._measured, 6 * ANSWER_S, self._name), at_s)
            self.problem = None
        except (PenstockError, TimeoutError) as problem:
            self.problem = str(problem) or "Kafka did not answer in time."
            log.debug("the console cannot read from Kafka now", what=self._name, reason=self.problem)
        except Exception:
            self.problem = "The console could not read this from Kafka. The log of the worker has the reason."
            log.exception("the console cannot read from Kafka", what=self._name)

    def _is_due(self) -> bool:
        if self._last is None:
            return True
        rest_s = 0.0 if self._last.value is None else self._cpu_s / self._share  # None: the count is not complete
        return is_old(time.time() - self._last.at_s, max(GLANCE_S, rest_s))

    def _measured(self) -> T:
        began_s = time.thread_time()
        try:
            return self._read()
        finally:
            self._cpu_s = time.thread_time() - began_s


class OpenLags:
    """The lag of the subscriptions whose pages are open, of all together in one reading: a client for each page would
    cost more than everything else. Event loop only."""

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        """`kafka`: librdkafka client settings. Clients are made when somebody asks, and end with this object."""
        self._kafka, self._admin = kafka, KafkaAdmin(kafka, ANSWER_S)
        self._open: dict[str, tuple[Subscription, float]] = {}  # by uid, and when it was asked for
        self._latest = Latest(self._measure, "console-lag")

    async def get(self, subscription: Subscription) -> Known[Sequence[PartitionLag]] | None:
        """Returns the lag by partition; None: Kafka has not answered yet."""
        uid, now_s = subscription.uid, time.monotonic()
        for other in [other for other, (_, asked_s) in self._open.items() if now_s - asked_s > Limits().rest_s]:
            del self._open[other]
        self._open[uid] = subscription, now_s
        lags = await self._latest.get(SPARING_S)
        if lags is not None and uid not in lags.value:  # its page has just been opened
            lags = await self._latest.get(SPARING_S, at_once=True)
        return None if lags is None or uid not in lags.value else Known(lags.value[uid], lags.at_s)

    def _measure(self) -> dict[str, list[PartitionLag]]:
        subscriptions = [subscription for subscription, _ in list(self._open.values())]
        lags: dict[str, list[PartitionLag]] = {subscription.group: [] for subscription in subscriptions}
        for lag in measure(self._kafka, subscriptions, time.time(), self._admin):
            lags[lag.group_offset.group].append(_partition(lag))
        return {subscription.uid: lags[subscription.group] for subscription in subscriptions}


class ConsoleReads:
    """Implements `Reads`. Costs nothing while nobody asks. Event loop only."""

    def __init__(
        self,
        instance: str,
        contract: ContractTable,
        status: StatusTable,
        rows: TrafficRows | None,
        make_rows: Callable[[], TrafficRows] | None,
        kafka: Mapping[str, Any],
        is_connected: Callable[[], bool],
        worker_id: str,
    ) -> None:
        """`rows`: those that the process has anyway. Otherwise `make_rows` makes some while somebody looks; None: no
        traffic is counted. `is_connected`: whether the producer has a connection, which it notices after a while.
        `worker_id`: of this process, whose own reports come back from Kafka every two seconds."""
        self.at_rest: Callable[[], None] = lambda: None  #: called when no page is open
        self._instance, self._contract, self._status = instance, contract, status
        self._rows, self._make_rows = rows, make_rows
        self._own_rows: TrafficRows | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._kafka, self._is_connected, self._worker_id = kafka, is_connected, worker_id
        # It reads the whole ledger, which takes 37 us per entry.
        counting = Latest(self._count_letters(), "console-letters", Limits().map_share)
        self._letters: Latest[dict[str, int] | None] = counting
        self._lags = OpenLags(kafka)
        self._map: tuple[State, asyncio.Task[_BuiltMap]] | None = None  # all pages of one state share it

    def _count_letters(self) -> Callable[[], dict[str, int] | None]:
        letters: list[OpenLetters] = []

        def count() -> dict[str, int] | None:
            if not letters:  # a client is made in the thread
                letters.append(OpenLetters(self._kafka, self._instance))
            return letters[0].count(sorted({channel.dlq_topic for channel in list(self._contract.channels.values())}))

        return count

    async def state(self) -> State:
        """Returns the installation now; while Kafka is away, when a worker last reported."""
        here = Contract(
            tuple(self._contract.channels.values()),
            tuple(self._contract.subscriptions.values()),
            tuple(self._status.workers.values()),
            self._status.report,
        )
        rows = self._traffic_rows()
        traffic = None if rows is None else rows.held(SHORT_S, WINDOWS)
        now_s = time.time()
        mine = self._status.workers.get(self._worker_id)
        away = not self._is_connected() or (mine is not None and now_s - mine.time > FRESH_S)
        at_s = min(now_s, max((worker.time for worker in here.workers), default=now_s)) if away else now_s
        letters = await self._letters.get(0.0)
        resources = await asyncio.to_thread(lambda: tuple(resource_statuses(here, at_s)))
        counted = None if letters is None else letters.value
        return State(self._instance, now_s, at_s, away, resources, here.workers, counted, traffic)

    def _traffic_rows(self) -> TrafficRows | None:
        if self._rows is not None or self._make_rows is None:
            return self._rows
        if self._own_rows is None:
            self._own_rows = self._make_rows()
            self._own_rows.start()
        return self._own_rows

    async def lag(self, subscription: Subscription) -> Known[Sequence[PartitionLag]] | None:
        """Returns the lag, read for the subscriptions whose pages are open."""
        return await self._lags.get(subscription)

    async def map(self, state: State) -> MapView:
        """Returns the map, built once for all pages, and again when enough time has passed for what it costs."""
        if self._map is None or (self._map[0] is not state and _is_due(self._map[1])):
            self._map = state, asyncio.get_running_loop().create_task(asyncio.to_thread(_build_map, state))
        return (await asyncio.shield(self._map[1])).view

    def rest(self) -> None:
        """Forget what was read for pages that were open."""
        self._lags = OpenLags(self._kafka)
        self._map = None
        forget()
        self.at_rest()
        rows, self._own_rows = self._own_rows, None
        if rows is not None:
            ending = asyncio.get_running_loop().create_task(rows.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


@dataclass(frozen=True, slots=True)
class _BuiltMap:
    view: MapView
    at_s: float  #: of the monotonic clock
    cpu_s: float


def _build_map(state: State) -> _BuiltMap:
    # numpy and the walks take 0.06 s and 11 MB: only where somebody looks.
    from app.operations.console.live_map import map_of

    began_s = time.thread_time()
    view = map_of(state)
    return _BuiltMap(view, time.monotonic(), time.thread_time() - began_s)


def _is_due(task: asyncio.Task[_BuiltMap]) -> bool:
    if not task.done():
        return False
    if task.cancelled() or task.exception() is not None:
        return True
    built = task.result()
    return time.monotonic() - built.at_s >= built.cpu_s / Limits().map_share


def _partition(lag: Lag) -> PartitionLag:
    offset = lag.group_offset
    return PartitionLag(
        partition=offset.partition,
        events=lag.events,
        seconds=lag.seconds,
        committed=offset.committed,
        start=offset.start,
        end=offset.end,
        settled_above=len(offset.settled),
        state=offset.state,
    )
