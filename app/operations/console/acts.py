"""What pages read and do beside the state, over the operations of the commands. What blocks is in a few threads.

tail, stored, with_id, event   `penstock tail`            letters, letter       `penstock dlq list`, `show`
passages                       `explain`, `lag`, `dlq`     redrive, send_edited  `penstock dlq redrive`
send                           `penstock send`             moves, seek           `penstock seek`
deeds                          `penstock tail --topic <instance>.audit`
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog

from app.operations.audit import Audit
from app.operations.console.events import Bounded, EventReads, newest_letters, nothing
from app.operations.console.sending import ingress_of, prepared
from app.operations.console.tasks import LEAVING, Running, Tasks
from app.operations.console.values import groups_of, letter_of, letter_row, summary_text
from app.operations.dead_letters.editing import edit, edited_document
from app.operations.dead_letters.ledger import read_ledger
from app.operations.dead_letters.letters import DeadLetter, Selection, group
from app.operations.dead_letters.rate import read_rate
from app.operations.dead_letters.reader import Starts, read_letters, read_named, read_ref
from app.operations.dead_letters.redrive import Redrive, RedriveConfig
from app.operations.dead_letters.running import RedrivePlace, Told, run_redrive
from app.operations.plural import count
from app.operations.seek import (
    Installation,
    check_controller_runs,
    planned_moves,
    read_position,
    seek_by_controller,
)
from app.operations.stored_records import as_json
from app.operations.times import read_time
from app.settings.load import Settings
from app.timing import END_S
from app.worker.controller_config import silent_s
from knative.contract.records import Channel, Subscription
from knative.contract.seeks import Move, SeekPhase
from knative.errors import NotReadyError, UsageError
from knative.ports import Produce
from tables.contract_table import ContractTable
from tables.kafka.loop_thread import call_in_thread
from tables.status_table import StatusTable
from tables.timing import ANSWER_S
from web.console.acts import Deed, Letter, LetterChoice, LetterRow, Letters, Sent, Task
from web.console.limits import Limits

log = structlog.get_logger(__name__)

T = TypeVar("T")


class ConsoleActs(EventReads):
    """Implements `Acts` with the operations of the commands. Event loop only."""

    def __init__(
        self,
        settings: Settings,
        contract: ContractTable,
        status: StatusTable,
        produce: Produce,
        kafka: Mapping[str, Any],
        limits: Limits,
    ) -> None:
        super().__init__(settings.instance, contract, status, kafka, limits)
        self._settings = settings
        self._audit = Audit(produce, kafka, settings.instance, settings.internal_replication)
        self._tasks = Tasks(self._ended)

    @property
    def ingress(self) -> str | None:
        """The address of this worker's ingress, as its machine sees it; None: it has none."""
        return ingress_of(self._settings)

    async def send(self, channel: Channel, attributes: Mapping[str, str], data: str, who: str) -> Sent:
        """Send an event to a channel or broker by HTTP."""
        sending = prepared(self._settings, channel, attributes, data)
        await self._audit.record(who, "send", f"an event of type {attributes.get('type', '')} to {channel.title}")
        return await self.in_thread(sending)

    # -- dead letters

    def _topics(self, subscription: str | None) -> list[str]:
        own = [
            other.dlq_topic for other in self._contract.subscriptions.values() if subscription in (None, other.label)
        ]
        every = [channel.dlq_topic for channel in self._contract.channels.values()]
        return sorted(set(own)) if subscription is not None and own else sorted(set(every))

    def _choice(self, choice: LetterChoice, starts: Starts) -> Iterator[DeadLetter]:
        if choice.refs:
            return read_named(self._sparing, choice.refs)
        topics = self._topics(choice.subscription)
        return read_letters(self._sparing, topics, _selection(choice), nothing, starts)

    def _newest(self, choice: LetterChoice, bounded: Bounded) -> Iterator[DeadLetter]:
        if choice.refs:
            return bounded.of(read_named(self._sparing, choice.refs))
        return newest_letters(self._sparing, self._topics(choice.subscription), _selection(choice), bounded)

    async def letters(self, choice: LetterChoice) -> Letters:
        """Returns dead letters."""
        self._check_refs(choice.refs)
        bounded = Bounded(self._limits)

        def read() -> Letters:
            ledger = read_ledger(self._kafka, self._instance)
            newest: list[tuple[float, str, LetterRow]] = []

            def kept() -> Iterator[tuple[DeadLetter, bool]]:
                for letter in self._newest(choice, bounded):
                    row = letter_row(letter, ledger)  # without its data, which may be large
                    heapq.heappush(newest, (letter.time_s, letter.ref, row))
                    if len(newest) > self._limits.rows_max:
                        heapq.heappop(newest)
                    yield letter, row.redriven_at is not None

            groups = groups_of(group(kept()))
            rows = [row for _, _, row in sorted(newest, key=lambda entry: entry[:2], reverse=True)]
            letters = sum(letter_group.count for letter_group in groups)
            return Letters(groups, rows, letters, bounded.is_whole)

        return await self.in_thread(read)

    async def letter(self, ref: str) -> Letter | None:
        """Returns one dead letter; None: it is not there (any more)."""
        self._check_refs([ref])

        def read() -> Letter | None:
            record = self._record(*read_ref(ref))
            if record is None:
                return None
            return letter_of(DeadLetter(record), read_ledger(self._kafka, self._instance))

        return await self.in_thread(read)

    def _check_refs(self, refs: Iterable[str]) -> None:
        """Pages show and send dead letters of this installation, and no other records of this Kafka."""
        topics = {channel.dlq_topic for channel in self._contract.channels.values()}
        for ref in refs:
            if read_ref(ref)[0] not in topics:
                raise UsageError(f"{ref} is not a dead letter of a channel or broker here.", "See the list.")

    async def redrive(self, choice: LetterChoice, rate: str, limit: str, who: str) -> None:
        """Start to deliver the chosen letters again."""
        self._check_refs(choice.refs)
        if limit and not (limit.isdecimal() and len(limit) < 10 and int(limit) > 0):
            raise UsageError(f"{limit!r} is not a valid number of letters.", "Write 1 or more, or nothing for all.")
        config = RedriveConfig(read_rate(rate, "Rate"), int(limit) if limit else None)
        what = _named(choice) + (f" at {rate}" if rate else "") + (f", at most {limit}" if limit else "")
        await self._start(
            Running(who, "redrive", f"Redrive of {what}"),
            lambda at: self._redrive(at, config, partial(self._choice, choice)),
        )

    async def send_edited(self, ref: str, attributes: str, data: str, who: str) -> None:
        """Start to deliver a letter again, with these attributes (JSON) and this data."""
        self._check_refs([ref])

        def read() -> DeadLetter:
            (letter,) = read_named(self._sparing, [ref])
            original = as_json(letter.record)
            return edit(letter, edited_document(original, attributes, data), original)

        edited = await self.in_thread(read)
        await self._start(
            Running(who, "redrive", f"Redrive of {ref}, edited"),
            lambda at: self._redrive(at, RedriveConfig(), lambda _: iter([edited])),
        )

    async def _redrive(
        self, at: Running, config: RedriveConfig, letters: Callable[[Starts], Iterator[DeadLetter]]
    ) -> None:
        def started(run: Redrive) -> None:
            at.progress = lambda: summary_text(run.summary)
            at.stop = run.stop
            if self._tasks.is_leaving:  # while it waited for the lock
                at.end_early(LEAVING)

        at.progress = lambda: "The redrive waits until another redrive has ended."
        subscriptions, channels = self._contract.subscriptions.values(), self._contract.channels.values()
        place = RedrivePlace(self._settings, self._kafka, tuple(subscriptions), tuple(channels))
        summary = await run_redrive(place, config, letters, Told(lambda *_: None, nothing, started))
        at.progress = lambda: summary_text(summary)
        if summary.exit_code:
            at.problem = "No letter was redriven." if not summary.redriven else "Some letters were not redriven."

    # -- offsets

    def _place(self) -> Installation:
        return Installation(self._kafka, self._instance, silent_s(self._settings))

    async def moves(self, subscription: Subscription, to: str) -> Sequence[Move]:
        """Returns what a seek would move now."""
        position = read_position(to, "Where to")
        return await self.in_thread(lambda: planned_moves(self._place(), subscription, position))

    async def seek(self, subscription: Subscription, to: str, who: str) -> None:
        """Start to move the offsets."""
        read_position(to, "Where to")
        await self.in_thread(lambda: check_controller_runs(self._place()))
        what = f"Seek of {subscription.kind}/{subscription.namespace}/{subscription.name} to {to}"
        await self._start(Running(who, "seek", what), lambda at: self._seek(at, subscription, to))

    async def _seek(self, at: Running, subscription: Subscription, to: str) -> None:
        phases = ["asking"]
        at.progress = lambda: f"It is {phases[-1]}."
        seeking = partial(seek_by_controller, self._place(), subscription, to, Installation.seek_s, phases.append)
        # It withdraws its request by itself, and says what it waited for.
        seek = await call_in_thread(seeking, Installation.seek_s + 6 * ANSWER_S, "console-seek")
        if seek.phase is SeekPhase.REFUSED:
            at.problem = f"Refused ({seek.reason}): {seek.message}."
        else:
            moved = ", ".join(f"partition {move.partition} to {move.new}" for move in seek.moves[:10])
            at.progress = lambda: f"Moved: {moved}{' ...' if len(seek.moves) > 10 else ''}."

    # -- what people do

    async def _start(self, running: Running, work: Callable[[Running], Any]) -> None:
        await self._tasks.start(running, work, partial(self._audit.record, running.who, running.act, running.what))

    async def _ended(self, running: Running) -> None:
        result = " ".join(text for text in (running.problem, running.progress()) if text)
        try:
            await self._audit.record(running.who, f"{running.act}-ended", f"{running.what}: {result}")
        except NotReadyError as problem:
            log.warning(
                "the result of an act could not be stored in the audit topic", what=running.what, reason=str(problem)
            )

    async def deeds(self) -> Sequence[Deed]:
        """Returns the newest acts of people, the newest first."""
        records = await self.in_thread(lambda: self._audit.newest(self._limits.rows_max))
        return [Deed(record.time_s, record.who, record.act, record.what) for record in records]

    def tasks(self) -> Sequence[Task]:
        """Returns what was started here, the newest first."""
        return self._tasks.newest_first

    async def stop_task(self, id_: str, who: str) -> None:
        """Have a task end early."""
        await self._tasks.stop_one(id_, lambda running: self._audit.record(who, "stop", running.what))

    async def leave(self) -> None:
        """The process is about to end. What is under way has END_S, and then Kafka has time to store how it ended."""
        await self._tasks.leave(END_S + ANSWER_S)


def _selection(choice: LetterChoice) -> Selection:
    """Raises UsageError."""
    since_s = read_time(choice.since, "Since", time.time()) if choice.since else None
    return Selection(choice.subscription or "", choice.reason or "", since_s)


def _named(choice: LetterChoice) -> str:
    """Returns what was chosen, in words."""
    if choice.refs:
        first = ", ".join(choice.refs[:5])
        return f"{count(len(choice.refs), 'letter')}: {first}{' ...' if len(choice.refs) > 5 else ''}"
    of = f"all letters of {choice.subscription}" if choice.subscription is not None else "all letters"
    of += f" since {choice.since}" if choice.since else ""
    return of + (f" with the reason {choice.reason!r}" if choice.reason else "")
