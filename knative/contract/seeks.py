"""A seek moves the offsets of one Subscription or Trigger once: its phases, and its form in the status topic. Pure.

    STOPPING --all workers have stopped; old and new offsets recorded--> MOVING --committed, read back--> STARTING
        |                                                                   |                                |
        `--------- withdrawn, or the time limit: nothing moved -------------+--> STARTING (with a reason)    |
        `--removed--> REFUSED <--removed------------------------------------'                DONE or REFUSED <'

Each state is recorded before the next step begins, and each step may be repeated. New offsets are worked out once and
recorded before the first commit, so a controller that continues after another one never works them out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class SeekPhase(StrEnum):
    """How far a seek is. The values are texts of the status topic."""

    STOPPING = "stopping"  #: workers are asked to stop the subscription
    MOVING = "moving"  #: all have stopped; the new offsets are recorded and are being committed
    STARTING = "starting"  #: workers are asked to start it again
    DONE = "done"
    REFUSED = "refused"  #: `reason` says why


#: Phase -> phases that may follow.
TRANSITIONS: Mapping[SeekPhase, frozenset[SeekPhase]] = {
    SeekPhase.STOPPING: frozenset({SeekPhase.MOVING, SeekPhase.STARTING, SeekPhase.REFUSED}),
    SeekPhase.MOVING: frozenset({SeekPhase.STARTING, SeekPhase.REFUSED}),
    SeekPhase.STARTING: frozenset({SeekPhase.DONE, SeekPhase.REFUSED}),
    SeekPhase.DONE: frozenset(),
    SeekPhase.REFUSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Move:
    """The offsets of one partition. `old` -1: there was no committed offset."""

    partition: int
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Seek:
    """One seek, as the leader remembers it."""

    id: str  #: the uid of the ResetOffset, or the id of the request
    reset: str  #: `namespace/name` of the ResetOffset; "" = asked for by a command
    kind: str  #: Subscription or Trigger
    namespace: str
    name: str
    to: str  #: as written: earliest, latest, a time, +N or -N
    phase: SeekPhase
    since: float  #: Unix seconds at which this phase began
    uid: str = ""  #: of the subscription; "" = it was refused before one was found
    topic: str = ""
    group: str = ""
    moves: tuple[Move, ...] = ()  #: from MOVING on
    reason: str = ""  #: CamelCase; why it is or will be REFUSED
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not TRANSITIONS[self.phase]

    @property
    def ref(self) -> tuple[str, str, str]:
        """(kind, namespace, name) of the subscription."""
        return self.kind, self.namespace, self.name

    @property
    def asked_by(self) -> str:
        """Who asked; for messages."""
        return f"ResetOffset {self.reset}" if self.reset else "penstock seek"


@dataclass(frozen=True, slots=True)
class SeekRequest:
    """A command asks the leading controller for a seek. It is withdrawn by removing the record."""

    id: str
    kind: str
    namespace: str
    name: str
    to: str
    time: float  #: Unix seconds, by the clock of the command


def seek_row(seek: Seek) -> dict[str, Any]:
    """Returns a seek as a row."""
    return {
        **asdict(seek),
        "phase": seek.phase.value,
        "moves": [[move.partition, move.old, move.new] for move in seek.moves],
    }
