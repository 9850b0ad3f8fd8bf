"""The watermark of one partition: the lowest unsettled offset, and what lies settled above it.

    offsets     100 101 102 103 104 105 106      committed: offset 102, metadata: settled {103, 105}, attempts {102: 2}
                 s   s   .   s   .   s   .       s = settled
                         ^next               ^fetched

A crash then repeats only what was settled after the last commit: the next owner reads from 102, skips 103 and 105, and
gives 102 its third attempt when it is due. The metadata string of a commit is bounded by the broker; `fits` says
whether one more record may be started so that whatever happens to it can still be written down.

Refuses to know Kafka, HTTP, lanes or the clock: offsets in, offsets and a string out.
"""

from __future__ import annotations

from collections import deque

from agents.ordering.offset_metadata import NO_METADATA, SPAN_MAX, OffsetMetadata, write


class OffsetTracker:
    """Offsets of one partition from being fetched to being settled. `committable` never goes down."""

    __slots__ = (
        "attempts",
        "changes",
        "committable",
        "due",
        "fetched",
        "inherited",
        "inherited_max",
        "pending",
        "settled",
    )

    def __init__(self, start: int, known: OffsetMetadata = NO_METADATA) -> None:
        """`start`: the committed offset; `known`: what its metadata said."""
        self.committable = start  #: lowest unsettled offset: what is committed
        self.fetched = start  #: one past the newest record taken from Kafka
        self.pending: deque[int] = deque()  # fetched and not yet below the mark, ascending
        self.settled = set(known.settled)  # settled and not below the mark
        self.attempts = dict(known.attempts)  #: failed attempts of records that are not settled yet
        self.due = dict(known.due)  #: Unix seconds before which the next attempt of such a record is not made
        self.inherited_max = max(known.settled, default=-1)
        self.inherited = bool(known.settled)  # `settled` still holds offsets that an earlier owner settled
        self.changes = 0  #: grows whenever there is something new to commit

    def add(self, offset: int) -> bool:
        """A record was fetched. False: it was settled by an earlier owner, or fetched before: do not deliver it."""
        if offset != self.fetched:
            if offset < self.fetched:
                return False
            if (
                not self.pending
            ):  # compaction or retention: what lay between is in no log, and must not keep this waiting
                self._advance(offset)
        self.fetched = offset + 1
        if self.inherited and offset in self.settled:
            if self.pending:
                self.pending.append(offset)
            else:
                self.settled.discard(offset)
                self._advance(self.fetched)
            return False
        self.pending.append(offset)
        return True

    def settle(self, offset: int) -> None:
        """The record is settled; the mark moves over everything that is settled in a row."""
        self.changes += 1
        if self.attempts:
            self.attempts.pop(offset, None)
            self.due.pop(offset, None)
        pending = self.pending
        if pending[0] != offset:
            self.settled.add(offset)
            return
        pending.popleft()
        settled = self.settled
        if settled:
            while pending and pending[0] in settled:
                settled.discard(pending.popleft())
        self._advance(pending[0] if pending else self.fetched)

    def failed(self, offset: int, attempts: int, due: float = 0.0) -> None:
        """`attempts` were made for this unsettled record so far, the next one is for `due` (Unix seconds; 0 = for no
        time): to be committed before that."""
        self.attempts[offset] = attempts
        if due:
            self.due[offset] = due
        else:
            self.due.pop(offset, None)
        self.changes += 1

    def skip_to(self, offset: int) -> None:
        """Records below `offset` are gone from the log (retention); what is in memory is still delivered."""
        assert offset >= self.fetched, "only records that were not fetched can be skipped"
        self.fetched = offset
        self.changes += 1
        if not self.pending:
            self._advance(offset)

    def fits(self, offset: int) -> bool:
        """True when a record at `offset` can be started and its settling still be written down."""
        return offset - self.committable < SPAN_MAX

    def _advance(self, mark: int) -> None:
        assert mark >= self.committable, f"the watermark would go down: {self.committable} -> {mark}"
        self.committable = mark
        if self.inherited:
            # Settled by an earlier owner and since gone from the log: never fetched, so never popped from `pending`.
            self.settled = {offset for offset in self.settled if offset >= mark}
            self.inherited = mark <= self.inherited_max

    def metadata(self) -> str:
        """What is settled at or above `committable`, and the attempts of unsettled records; "" when there is
        neither."""
        return write(self.committable, self.settled, self.attempts, self.due)
