"""Records in the status topic what this leader must remember, so that the next leader can continue on any machine.

    begin:  read to the end -> copy the last leader's state under keys of this term -> claim -> read it back
    write:  rows that change -> acknowledged by Kafka -> only then the caller acts

What counts, and why a deposed leader cannot overwrite it, is in `knative/contract/leader_state`. Event loop only.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

import structlog

from controller.kafka.publisher import all_stored, read_back
from knative.contract.leader_state import LeaderState, Row, Term, difference, rows_of
from knative.errors import PenstockError
from knative.ports import Produce, ProduceFailure
from knative.produce import send
from tables.kafka.errors import KafkaUnavailable
from tables.status_table import StatusTable, encode_row

log = structlog.get_logger(__name__)


class UnreadableRecords(PenstockError):
    """A topic holds records that this version cannot read. The leader tries again: another version may replace them."""


class LeaderStateStore:
    """The state of the leading controller, in memory and in the status topic, from `begin` on."""

    def __init__(
        self,
        produce: Produce,
        table: StatusTable,
        topic: str,
        limit_s: float,
        new_token: Callable[[], str] = lambda: secrets.token_hex(4),
    ) -> None:
        self._produce = produce
        self._table = table
        self._topic = topic
        self._limit_s = limit_s
        self._new_token = new_token
        self._changed = asyncio.Event()
        table.on_change(self._changed.set)
        self._term: Term | None = None
        self._unsure: set[str] = set()  #: keys below the term; whether Kafka stored their last record is not known
        self.state = LeaderState()  #: as recorded

    @property
    def holds(self) -> bool:
        """Whether the term that this process began is still the one that counts, as far as the topic was read."""
        return self._term is not None and self._table.leaders.current == self._term

    async def begin(self) -> bool:
        """Take over the last leader's state. False if another leader was faster.

        Call it when Kafka has confirmed that this process leads. Raises KafkaFailed, UnreadableRecords."""
        self._term = None
        if not await self._table.read_to_end(self._limit_s):
            raise KafkaUnavailable("reading the status topic to its end: Kafka does not answer")
        leaders = self._table.leaders
        try:
            state = leaders.state()
        except ValueError as problem:
            message = "the status topic holds records of a leader that this version cannot read; use the version that"
            raise UnreadableRecords(f"{message} wrote them ({problem})") from problem
        term = Term(leaders.next_number, self._new_token())
        await self._store((f"{term.key}/{rest}", row) for rest, row in rows_of(state).items())
        await self._store([(term.key, {"claim": term.token})])
        what = f"claiming term {term.number}"
        await read_back(self._changed, lambda: self._table.leaders.has(term), self._limit_s, what)
        self._term, self._unsure, self.state = term, set(), state
        return self.holds

    async def write(self, state: LeaderState) -> None:
        """Record the new state; when this returns, Kafka has it. Raises KafkaFailed: then `state` stays as it was."""
        assert self._term is not None, "begin comes first"
        rows = difference(self.state, state)
        if self._unsure:
            now = rows_of(state)
            rows.update({rest: now.get(rest) for rest in self._unsure})
        if rows:
            self._unsure.update(rows)
            await self._store((f"{self._term.key}/{rest}", row) for rest, row in rows.items())
            self._unsure.clear()
        self.state = state

    def sweep(self) -> None:
        """Remove the records of earlier terms from the topic. What is not stored is sent again by the next call."""
        if self._term is not None and self.holds:
            for key in self._table.leaders.outdated(self._term):
                self._produce.send(self._topic, None, key.encode(), [], _swept, 0)

    async def _store(self, records: Iterable[tuple[str, Row | None]]) -> None:
        waiting = [
            send(self._produce, self._topic, None if row is None else encode_row(row), key.encode(), [], 0)
            for key, row in records
        ]
        await all_stored(waiting, self._limit_s, "recording the leader state")


def _swept(failure: ProduceFailure | None) -> None:
    if failure is not None:
        log.debug("the record of an earlier leader was not removed", reason=failure.message)
