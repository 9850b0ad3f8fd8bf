"""Computes the committable offset of one partition, and remembers which offsets above it are settled.

    offsets     100 101 102 103 104 105 106      committed: offset 102, metadata: settled {103, 105}, attempts {102: 2}
                 s   s   .   s   .   s   .       s = settled
                         ^committable        ^fetched

After a crash only what was settled after the last commit is delivered again: the next owner reads from 102, skips 103
and 105, and makes the third attempt for 102 when it is due. The broker limits the length of the metadata string. `fits`
says whether one more record may be started so that its result still fits into that string.
"""

from __future__ import annotations

from collections import deque

from agents.offsets.offset_metadata import NO_METADATA, SPAN_MAX, OffsetMetadata, write

#: Of partitions that have fetched nothing yet: an empty deque has 760 bytes, and a worker has 100,000 partitions.
_NOTHING: deque[int] = deque(maxlen=0)


class OffsetTracker:
    """Follows each offset of one partition from fetched to settled. `committable` never goes down."""

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

    def __init__(self, start: int, metadata: OffsetMetadata = NO_METADATA) -> None:
        """`start`: the committed offset; `metadata`: that of this commit, decoded."""
        self.committable = start  #: lowest unsettled offset: the one to commit
        self.fetched = start  #: one past the newest record taken from Kafka
        self.pending = _NOTHING  # fetched and at or above `committable`, ascending
        self.settled = set(metadata.settled)  # settled and above `committable`
        self.attempts = dict(metadata.attempts)  #: failed attempts of records that are not settled yet
        self.due = dict(metadata.due)  #: Unix seconds before which the next attempt of such a record is not made
        self.inherited_max = max(metadata.settled, default=-1)
        self.inherited = bool(metadata.settled)  # `settled` still holds offsets that an earlier owner settled
        self.changes = 0  #: grows whenever there is something new to commit

    def add(self, offset: int) -> bool:
        """Add a fetched record. False: do not deliver it; an earlier owner settled it, or it was fetched before."""
        if offset != self.fetched:
            if offset < self.fetched:
                return False
            # The offsets in between are gone (compaction, retention) or were never records (transaction markers).
            # Nothing will settle them, so they must not hold back the committable offset.
            if not self.pending:
                self._advance(offset)
        self.fetched = offset + 1
        if self.inherited and offset in self.settled:
            if self.pending:
                # `committable` may not pass the older records yet; `settle` pops this one together with them.
                self.pending.append(offset)
            else:
                self.settled.discard(offset)
                self._advance(self.fetched)
            return False
        if self.pending is _NOTHING:
            self.pending = deque()
        self.pending.append(offset)
        return True

    def settle(self, offset: int) -> None:
        """The record is settled; `committable` moves up to the next offset that is not."""
        self.changes += 1
        if self.attempts:
            self.attempts.pop(offset, None)
            self.due.pop(offset, None)
        pending = self.pending
        if pending[0] != offset:
            self.settled.add(offset)
            return
        pending.popleft()
        # Only fetched offsets are in `pending`, so `committable` also jumps over gaps in the log.
        settled = self.settled
        if settled:
            while pending and pending[0] in settled:
                settled.discard(pending.popleft())
        self._advance(pending[0] if pending else self.fetched)

    def failed(self, offset: int, attempts: int, due: float = 0.0) -> None:
        """Note the `attempts` made so far for this unsettled record, and when the next one is `due` (Unix seconds; 0 =
        no time). Commit this before the next attempt."""
        self.attempts[offset] = attempts
        if due:
            self.due[offset] = due
        else:
            self.due.pop(offset, None)
        self.changes += 1

    def skip_to(self, offset: int) -> None:
        """The log has no more records below `offset` (retention); records in memory are still delivered."""
        assert offset >= self.fetched, "only records that were not fetched can be skipped"
        self.fetched = offset
        self.changes += 1
        if not self.pending:
            self._advance(offset)

    def fits(self, offset: int) -> bool:
        """Returns whether the commit metadata has room for a settled record at `offset`."""
        return offset - self.committable < SPAN_MAX

    def _advance(self, offset: int) -> None:
        assert offset >= self.committable, f"the committable offset would go down: {self.committable} -> {offset}"
        self.committable = offset
        if self.inherited:
            # An offset that an earlier owner settled may be gone from the log now. Then it is never fetched and never
            # popped from `pending`, so it is dropped here.
            self.settled = {settled for settled in self.settled if settled >= offset}
            self.inherited = offset <= self.inherited_max

    def metadata(self) -> str:
        """Returns the commit metadata: offsets settled above `committable`, and attempts of unsettled records; "" when
        there are neither."""
        return write(self.committable, self.settled, self.attempts, self.due)
