"""The controller's loop around `reconcile`: reads the resources, observes Kafka, acts, and repeats until all is done.

    file saved, contract or workers' status changed, time passed
        -> scan -> identities -> observe -> reconcile -> act -> observe -> reconcile -> ... -> statuses

Only the leader does this. While Kafka is unavailable, all is retried with growing pauses. A defect ends the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace

import structlog

from controller.config import ControllerConfig
from controller.executor import Executor, LeadershipLost
from controller.kafka.leader_state_store import LeaderStateStore, UnreadableRecords
from controller.kafka.publisher import Publisher
from controller.model import Trouble
from controller.place import Place, directory
from controller.plan.actions import (
    Action,
    DeleteTopic,
    PublishSubscription,
    RecordCreations,
    Retract,
    Scope,
    World,
    WriteStatus,
)
from controller.plan.reconcile import reconcile, scope_of
from controller.plan.seeks import active
from controller.status.problems import ProblemLog, refused_writes
from controller.status.reporter import StatusReporter
from controller.term import Term
from controller.timing import ABSENT_S
from controller.view import View
from knative.backoff import exponential_s
from knative.contract import kafka_names
from knative.contract.leader_state import Removal
from knative.ports import Produce
from tables.contract_table import ContractTable
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaUnavailable
from tables.kafka.group_lock import GroupLock
from tables.status_table import StatusTable

log = structlog.get_logger(__name__)

STEPS_MAX = 20  #: rounds of observe, decide, act in one pass; the rest waits for the next pass


class Controller:
    """Runs from `start` to `stop`. `crashed` is called once with the exception that ended it. Event loop only."""

    def __init__(
        self,
        config: ControllerConfig,
        contract: ContractTable,
        status: StatusTable,
        produce: Produce,
        crashed: Callable[[BaseException], None],
        place: Place | None = None,
    ) -> None:
        """The caller starts and stops the tables, and creates the internal topics. `place`: None = the directories of
        the config."""
        self._config = config
        self._contract = contract
        self._status = status
        self._crashed = crashed
        self._wake = asyncio.Event()
        self._contract_changed = self._status_changed = self._source_changed = self._stopping = False
        self.settled = asyncio.Event()  #: set when everything was as the resources say, at least once
        self._outage_due_s = 0.0
        self.problem: str | None = None  #: why there was no progress at the last try
        self._task: asyncio.Task[None] | None = None
        self._place = place or directory(config)
        self._source, self._sink = self._place.source, self._place.sink
        self._problems = ProblemLog(self._sink)
        self._election = self._place.elect(self._lock, self._on_election)
        status_topic = kafka_names.status_topic(config.instance)
        self._reporter = StatusReporter(produce, status, status_topic, config.version, config.silent_s)
        self._state = LeaderStateStore(produce, status, status_topic, config.publish_timeout_s)
        publisher = Publisher(produce, contract, config.contract_topic, config.publish_timeout_s)
        admin = KafkaAdmin(config.kafka, config.admin_timeout_s)
        self._executor = Executor(config, admin, publisher, self._state, self._election)
        self._view = View(config, contract, status, self._source, self._executor, self._reporter)
        contract.on_change(self._on_contract)
        status.on_change(self._on_status)

    @property
    def leading(self) -> bool:
        """Whether this process is the one that reconciles."""
        return self._election.held

    def troubles(self) -> list[Trouble]:
        """Returns what does not work now at the API server, if the resources are from a cluster."""
        return self._place.troubles()

    def _lock(self, changed: Callable[[bool], None]) -> GroupLock:
        config = self._config
        return GroupLock(
            kafka_names.controller_group(config.instance),
            config.contract_topic,
            config.kafka,
            config.session_timeout_s,
            changed=changed,
            crashed=self._crashed,
            failed=lambda why: log.warning("error in the lock group", reason=why),
        )

    def _on_election(self, leading: bool) -> None:
        event = "controller is the leader" if leading else "controller is no longer the leader"
        log.info(event, group=kafka_names.controller_group(self._config.instance))
        self._wake.set()

    async def start(self) -> None:
        """Check where resources come from and statuses go (UsageError if that cannot be used), then start; returns at
        once."""
        await self._place.open()
        await self._source.start(self._on_source)
        await self._sink.check()
        self._election.start()
        self._task = asyncio.create_task(self._run(), name="controller")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Finish the current step within the time limit, and give up leadership."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            _, pending = await asyncio.wait([self._task], timeout=self._config.stop_timeout_s)
            for task in pending:
                task.cancel()
        await self._election.stop(self._config.stop_timeout_s)
        await self._source.stop()
        await self._place.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._crashed(problem)

    def _on_source(self) -> None:
        self._source_changed = True
        self._wake.set()

    def _on_contract(self) -> None:
        self._contract_changed = True
        self._wake.set()

    def _on_status(self) -> None:
        self._status_changed = True
        self._wake.set()

    async def _run(self) -> None:
        term: Term | None = None
        while not self._stopping:
            if not self._election.held or not self._contract.loaded or not self._status.loaded:
                term = None
            elif term is None or term.number != self._election.term:
                term = Term(self._election.term)
            if term is not None:
                await self._round(term)
            elif self._place.reports_outage():
                await self._report_outage()
            await self._pause()

    async def _report_outage(self) -> None:
        """Have the statuses say that Kafka is away, which takes leadership from everybody."""
        if time.monotonic() < self._outage_due_s:
            return
        self._outage_due_s = time.monotonic() + self._config.status_tick_s
        why = await self._executor.unavailable()
        scan = await self._source.scan()
        if why is None or not scan.complete or self._election.held:
            return
        statuses: list[WriteStatus] = []
        if self._contract.loaded and self._status.loaded:  # else it went away before this process knew anything
            await self._source.prepare()
            world = self._view.world(Term(0, scan=scan))
            world = replace(world, unavailable=why, secrets=await self._view.latest_secrets(world.objects))
            statuses = [action for action in reconcile(world, self._config) if isinstance(action, WriteStatus)]
            statuses += self._source.statuses()
        statuses += self._source.outage_statuses(why, {status.uid for status in statuses})
        await self._sink.write(statuses, (), time.time())

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._config.poll_s):
                await self._wake.wait()
            await asyncio.sleep(self._config.debounce_s)
        except TimeoutError:
            return
        self._wake.clear()

    async def _begin(self, term: Term) -> None:
        """Take over what the last leader recorded. Raises LeadershipLost, KafkaFailed, UnreadableRecords."""
        term.begun = False
        await self._executor.confirm()
        # All that the last leader published and recorded must be in the tables before the first decision.
        if not await self._contract.read_to_end(self._config.publish_timeout_s):
            raise KafkaUnavailable("reading the contract topic to its end: Kafka does not answer")
        if not await self._state.begin():
            raise LeadershipLost
        await self._sink.begin()
        self._executor.begin_term()
        self._source.begin(self._state.state)
        term.begun = True

    async def _round(self, term: Term) -> None:
        now = time.monotonic()
        if self._scan_is_due(term, now):
            term.scanned_at, self._source_changed = now, False
            scan = await self._source.scan()
            await self._problems.report((*scan.problems, *term.wrong_place))
            if scan != term.scan:
                term.scan = scan
                term.retry_at, term.failed_tries = min(term.retry_at, now), 0
                if term.parts is None:
                    term.observed = None
        if term.failure and now < term.retry_at:
            return  # Kafka is unavailable: do not ask it after every scan
        try:
            await self._view.collect(term, now, contract=self._contract_changed, status=self._status_changed)
            ticks = now - term.reported_at >= self._config.status_tick_s
            if term.parts is not None:
                idle = term.is_done and term.reported is term.scan and not (ticks and self._source.waits)
            else:
                idle = term.observed is not None and not self._status_changed and not ticks
            if idle:
                return
            self._contract_changed = self._status_changed = False
            term.reported_at = now
            await self._settle(term)
        except LeadershipLost:
            term.observed = term.parts = None
        except (KafkaFailed, UnreadableRecords, OSError) as problem:
            if term.parts is None:
                term.observed = None
            term.queue, term.focus = term.queue | term.focus, set()
            term.look, term.observed_at = True, 0.0
            self._retry_later(term, str(problem))

    def _scan_is_due(self, term: Term, now: float) -> bool:
        if self._source.polled:
            return now - term.scanned_at >= self._config.poll_s * 0.9  # two must be apart: they decide what was removed
        return self._source_changed or now - term.scanned_at >= ABSENT_S

    async def _settle(self, term: Term) -> None:
        """Act until only statuses are left, then write them. Raises LeadershipLost, KafkaFailed, UnreadableRecords,
        OSError."""
        if not term.begun or not self._state.holds:
            term.parts = None
            await self._begin(term)
        if unread := self._contract.problem or self._contract.unsupported_text:
            raise UnreadableRecords(f"the contract contains records that this version cannot read: {unread}")
        more = await self._source.prepare()
        if term.parts is None:
            self._find_foreign(term)
            self._view.take_apart(term)
        statuses: list[WriteStatus] = []
        new: set[str] = set()
        for _ in range(STEPS_MAX):
            world = self._view.world(term)
            world = replace(world, secrets=await self._view.secrets(world.objects))
            asked = scope_of(world, self._config)
            if term.must_ask(asked) or active(world.seeks.values()):
                world = await self._observe(term, world, asked)
            decided = reconcile(world, self._config)
            statuses = [action for action in decided if isinstance(action, WriteStatus)]
            actions = [action for action in decided if not isinstance(action, RecordCreations | WriteStatus)]
            self._view.keep_failures(term, world, actions)
            await self._record_new(decided, world)
            # Failed actions wait for `retry_at`; the others must not wait for them.
            due = time.monotonic() >= term.retry_at
            actions = [action for action in actions if due or action.target not in world.failures]
            if not actions:
                term.queue -= term.focus  # this decision saw their present state
                break
            if due:
                term.retry_at = float("inf")
            if any(isinstance(action, Retract | DeleteTopic) for action in actions):
                # Statuses say that something is no longer served before it is gone.
                await self._write(term, statuses, world)
            await self._executor.carry_out(actions)
            new |= {
                action.subscription.uid
                for action in actions
                if isinstance(action, PublishSubscription) and action.target not in self._executor.failures
            }
            term.look = True
            if term.parts is None:
                term.observed = None
            self._contract_changed = False  # our own records are not news, and Kafka is observed again anyway
            if any(action.target in self._executor.failures for action in actions):
                self._retry_later(term)
        # Workers report on the new records in a moment, and each status is a write to a cluster.
        later = new if term.parts is not None else set()
        unwritten = await self._write(term, statuses, world, later)
        if self._source.waits:
            published = {record.uid for record in self._view.published()}
            held = published | self._executor.removals.keys() | self._executor.creations.keys()
            await self._source.release(frozenset(held))
        self._schedule(term, is_written=not later)
        term.focus, term.unwritten = set(), term.unwritten | unwritten
        if more or not term.is_done:
            self._wake.set()

    async def _observe(self, term: Term, world: World, asked: Scope) -> World:
        """Ask Kafka about all that the world needs. Raises KafkaFailed."""
        term.observed_at = term.observed_at if world.only is not None else time.monotonic()
        before = term.observed
        term.observe(asked, await self._executor.observe(asked))
        term.look = False
        if term.parts is not None and before is not None and term.observed is not None:
            term.dirty |= term.parts.changed_in_kafka(before, term.observed)
        # Workers as they were before: one that has reported since may have committed after the observation.
        return replace(self._view.world(term), workers=world.workers, silent=world.silent, secrets=world.secrets)

    async def _record_new(self, decided: list[Action], world: World) -> None:
        """Record the identities and creations of what the contract does not have, before any of it is created."""
        state = replace(self._state.state, identities=self._source.unpublished(self._view.published()))
        given_up: tuple[Removal, ...] = ()
        for action in decided:
            if isinstance(action, RecordCreations):
                others = {uid: removal for uid, removal in state.creations.items() if uid not in world.creations}
                state = replace(
                    state, creations={**others, **{creation.uid: creation for creation in action.creations}}
                )
                given_up = action.given_up
        await self._state.write(state)
        for removal in given_up:
            log.warning(
                "a resource is gone without having been deleted; its topics are kept, delete them if they are not "
                "needed",
                kind=removal.kind,
                resource=removal.label,
                topics=", ".join(removal.topics),
            )

    def _find_foreign(self, term: Term) -> None:
        """Find what is served but not here, and what a person wants to remove."""
        # While a file cannot be read, it may name the resource that a person wants to remove. Requests wait and expire.
        asked = self._reporter.requested(time.time()) if term.scan.complete else frozenset()
        removing = self._executor.removals.keys()
        published = self._view.published()
        term.wrong_place = self._source.find_foreign(published, removing, asked)
        if term.scan.complete:
            unrecorded = {record.uid for record in published if record.uid not in removing}
            self._reporter.drop_requests(self._source.released & unrecorded)

    def _schedule(self, term: Term, *, is_written: bool) -> None:
        """Decide when to observe Kafka again without a change here. `is_written`: no status was put off."""
        if term.failure:
            log.info("controller makes progress again", tries=term.failed_tries)
        term.failure = self.problem = None
        if self._executor.failures:
            return  # `_retry_later` has set the time
        if term.observed is not None and term.observed.unknown:
            self._retry_later(term)
            return
        term.failed_tries = 0
        # for members to leave a group, and for workers to stop
        waits = bool(self._executor.removals) or bool(active(self._executor.seeks.values()))
        if term.scan.complete and not waits and term.is_done and is_written:
            self.settled.set()
        term.retry_at = time.monotonic() + self._config.removal_poll_s if waits else float("inf")

    async def _write(
        self, term: Term, statuses: list[WriteStatus], world: World, later: Collection[str] = ()
    ) -> frozenset[str]:
        """Report all problems, and write the statuses but those of the uids in `later`. Returns the uids of those that
        must be tried again."""
        published = self._view.published() if world.retained else ()  # it is long, and most rounds retain nothing
        retained = [record for record in published if record.uid in world.retained]
        statuses = [*statuses, *self._source.statuses()]
        if not self._election.held or self._election.term != term.number:
            raise LeadershipLost
        problems = (*term.scan.problems, *refused_writes(self.troubles()))
        term.reported = term.scan
        notes, types = term.wrong_place, term.scan.event_types
        self._reporter.report(statuses, problems, notes, self._source.foreign, world.only, types)
        self._reporter.sweep(time.monotonic())
        self._reporter.drop_seek_requests(self._executor.seeks, time.time())
        self._state.sweep()
        now = [status for status in statuses if status.uid not in later]
        return frozenset(later) | await self._sink.write(now, retained, time.time(), only=world.only)

    def _retry_later(self, term: Term, failure: str | None = None) -> None:
        """Retry after a pause that grows with each consecutive failure."""
        term.failed_tries += 1
        pause_s = exponential_s(term.failed_tries, self._config.poll_s, self._config.backoff_max_s)
        term.retry_at = time.monotonic() + pause_s
        if failure and failure != term.failure:
            log.warning("controller cannot make progress; it tries again", reason=failure)
        self.problem = term.failure = failure or term.failure
