"""The interface of a source of resources, as the controller needs it: a directory or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.model import FileProblem, Key, Record
from controller.plan.actions import AnyObject, ClusterView, WriteStatus
from knative.contract.leader_state import Identity, LeaderState, Removal


@dataclass(frozen=True, slots=True)
class Scan:
    """What a source holds at one moment."""

    revision: object = None  #: differs from that of another scan if decisions may differ
    problems: tuple[FileProblem, ...] = ()
    complete: bool = False  #: what is missing here does not exist
    #: by label of a channel or Broker, the sorted types that somebody has declared for it
    event_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Source(Protocol):
    """A source of resources. Event loop only; `start` comes first."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Start; `changed` is called when there is something to scan. Raises UsageError."""

    async def stop(self) -> None:
        """Stop."""

    async def scan(self) -> Scan:
        """Returns what the source holds now."""

    @property
    def polled(self) -> bool:
        """Whether only a scan finds what has changed, because nothing calls `changed`."""

    @property
    def waits(self) -> bool:
        """Whether `prepare` or `release` has something left to do."""

    def take_dirty(self) -> frozenset[str] | None:
        """Returns the uids whose decisions may have changed since the last call; None = everything."""

    def object_of(self, uid: str) -> AnyObject | None:
        """Returns one of `objects`; only where `take_dirty` names uids."""

    def begin(self, state: LeaderState) -> None:
        """Begin a term with what the last leader recorded."""

    @property
    def foreign(self) -> frozenset[str]:
        """Uids of published resources that are served although they are not here, and nothing said: deleted."""

    @property
    def released(self) -> frozenset[str]:
        """Uids of published resources that a person wants to remove, and that may be removed."""

    def find_foreign(
        self, published: Iterable[Record], removing: Collection[str], asked: Collection[str]
    ) -> tuple[FileProblem, ...]:
        """Find the foreign resources of the last scan; returns a problem if there are any. `asked`: uids that a person
        has asked to remove since then."""

    async def prepare(self) -> bool:
        """Do what must be done before objects may be acted on. Returns whether something is left for the next call."""

    def objects(self, published: Iterable[Record], retracted: Collection[str]) -> tuple[AnyObject, ...]:
        """Returns the objects to be served. `retracted`: uids whose removal cannot be cancelled any more."""

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """Returns the uids of published resources that are neither changed nor removed."""

    def retained_creations(self, complete: bool, creations: Mapping[str, Removal]) -> frozenset[str]:
        """Returns the uids of the creations that stay: what was created for resources that are not published yet."""

    def vanished(self, complete: bool, creations: Mapping[str, Removal], now: float) -> Mapping[str, float]:
        """Returns the uids of creations whose objects are gone without being deleted, and since when this process knows
        it. `now`: Unix seconds."""

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """Returns identities that nothing else remembers."""

    def view(self, *, whole: bool = True) -> ClusterView | None:
        """Returns what the cluster shows about other objects; None = there is no cluster. `whole`: with `expected`,
        which takes a look at all objects."""

    def statuses(self) -> list[WriteStatus]:
        """Returns statuses of objects that are there and cannot be served."""

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        """Returns the statuses to write while Kafka is away: of objects whose state in Kafka is not known, unless their
        status says so already. `said`: uids of objects whose state is known. `why`: Kafka is away."""

    async def release(self, in_kafka: frozenset[str]) -> None:
        """Let go of what is being deleted. `in_kafka`: uids that still have something there."""
