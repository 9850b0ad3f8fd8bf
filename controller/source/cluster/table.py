"""The objects of a cluster as one table by uid, each with its state. Pure.

    ours                       LISTED --our finalizer--> SERVED     not valid: INVALID     deletionTimestamp: DELETING
    core's Subscriptions       FORMER --deletionTimestamp--> LEAVING     without our finalizer: OTHERS
    somebody else's Triggers   OTHERS
    without an object          GONE, MISSING

A state follows from an object, the class of its Broker, and whether core is there: each scan finds it again. What must
be remembered of a uid is in its row too, which outlives the object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from controller.plan.actions import AnyObject, WriteStatus
from controller.source.cluster.objects import (
    FinalizerChange,
    Known,
    broker_of,
    change_finalizer,
    grant,
    is_of_another_class,
    is_written_into,
    namespaced_status,
    owns_something,
    read_object,
)
from controller.source.cluster.store import Name, Raw, name_of, uid_of
from knative.resources.values import KafkaChannel, ResetOffset


class State(Enum):
    """What an object is to this controller."""

    SERVED = "ours: valid, and with our finalizer if something in Kafka belongs to it"
    LISTED = "ours, without our finalizer"
    INVALID = "ours, not valid: served as before"
    DELETING = "ours, being deleted"
    FORMER = "a Subscription with our finalizer that Knative's core resolves now"
    LEAVING = "the same, being deleted"
    OTHERS = "another controller's"
    GONE = "a watch has said that it was deleted"
    MISSING = "not there, although nothing has said that it was deleted"


STAYING = frozenset({State.SERVED, State.LISTED, State.INVALID})
OURS = STAYING | {State.DELETING}  #: this controller leaves its finalizer on them, and writes their status
DELETED = frozenset({State.DELETING, State.LEAVING, State.GONE})


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server has refused a write."""

    why: str
    since: float  #: Unix seconds
    forbidden: bool  #: this user may not


@dataclass(slots=True)
class Row:
    """What is known of a uid."""

    state: State = State.MISSING
    known: Known | None = None  #: the object as it was read last; None = it is not there
    was_entry: bool = False  #: a channel has listed it as a subscriber once
    released: bool = False  #: a person wants it removed
    missing_since: float | None = None  #: Unix seconds
    refused: Refusal | None = None  #: of its finalizer


@dataclass(slots=True)
class Table:
    """What the last scan has found, and what is remembered of earlier ones."""

    core: bool = False  #: Subscriptions are entries of channels, which Knative's core writes
    synced: bool = False  #: every list was read once
    lists: frozenset[tuple[str, str]] = frozenset()  #: (kind, namespace) of what can be listed; "" = all namespaces
    rows: defaultdict[str, Row] = field(default_factory=lambda: defaultdict(Row))

    def is_new(self, raw: Raw) -> bool:
        """Whether this object, as it is, was not read yet."""
        row = self.rows.get(uid_of(raw))
        return row is None or row.known is None or row.known.raw is not raw

    def read(self, raws: Iterable[Raw], gone: Collection[str], read: Mapping[str, Known] | None = None) -> None:
        """These objects are there now, and no others. `gone`: uids of which a watch has said that they were deleted.
        `read`: by uid, those that were read already."""
        before, self.rows = self.rows, defaultdict(Row)
        for raw in raws:
            uid = uid_of(raw)
            row = self.rows[uid] = before.pop(uid, Row())
            if row.known is None or row.known.raw is not raw:
                row.known = (read or {}).get(uid) or read_object(raw)
        for uid, row in before.items():
            if row.was_entry or row.released or row.missing_since is not None:
                row.known, row.state = None, State.MISSING
                self.rows[uid] = row
        for uid in gone:
            self.rows[uid].state = State.GONE
        brokers = {
            name_of(known.raw): owns_something(known.resource) or known.finalized
            for known in self.known()
            if known.kind == "Broker"
        }
        for row in self.rows.values():
            if row.known is not None:
                row.state = self._state_of(row.known, brokers)
        for uid in _entries(self.known()):
            self.rows[uid].was_entry = True

    def _state_of(self, known: Known, brokers: Mapping[Name, bool]) -> State:
        """With core, Subscriptions are core's. Triggers are their Broker's: if that is of another class, or with core
        of a class that is not known yet, they are somebody else's, unless they were ours. So are those that are not
        valid here: other implementations have other rules."""
        if self.core and known.kind == "Subscription":
            if not known.finalized:
                return State.OTHERS
            return State.LEAVING if known.deleting else State.FORMER
        if known.kind == "Trigger" and not known.finalized and not brokers.get(broker_of(known.raw), not self.core):
            return State.OTHERS
        if known.deleting:
            return State.DELETING
        if known.resource is None:
            return State.INVALID
        return State.SERVED if known.finalized or isinstance(known.resource, ResetOffset) else State.LISTED

    def missing(self, uids: Collection[str], now: float) -> Mapping[str, float]:
        """These are missing, and no others; returns since when. `now`: Unix seconds."""
        since = {uid: self.rows[uid].missing_since or now for uid in uids}
        for uid, row in self.rows.items():
            row.missing_since = since.get(uid)
        return since

    # -- questions

    def known(self, *states: State) -> list[Known]:
        """The objects in these states; without a state all."""
        rows = (row for row in self.rows.values() if not states or row.state in states)
        return [row.known for row in rows if row.known is not None]

    def entries(self) -> frozenset[str]:
        """Uids of the subscribers that the channels list which are served."""
        return _entries(self.known(State.SERVED))

    def objects(self) -> list[AnyObject]:
        """Those that may be acted on. Brokers of other classes are not served, but their Triggers must not be taken for
        ours."""
        served = self.known(State.SERVED)
        if self.core:
            subscriptions = {known.uid for known in self.known() if known.kind == "Subscription"}
            served = [_without_ghosts(known, subscriptions) for known in served]
        others = [known for known in self.known() if is_of_another_class(known)]
        return [known.as_object() for known in (*served, *others)]

    def written(self) -> list[Known]:
        """Ours, without the Triggers whose Broker has another class now: they have our finalizer until they go, and
        their status is somebody else's."""
        others = {name_of(known.raw) for known in self.known() if is_of_another_class(known)}
        return [known for known in self.known(*OURS) if known.kind != "Trigger" or broker_of(known.raw) not in others]

    def refused(self) -> list[WriteStatus]:
        """The statuses of objects that are not served because their finalizer is refused."""
        return [
            row.known.not_ready("FinalizerForbidden", f"{row.refused.why}; {grant('patch', row.known.kind)}")
            for row in self.rows.values()
            if row.state is State.LISTED and row.known is not None and row.refused is not None and row.refused.forbidden
        ]

    def namespaced(self) -> list[WriteStatus]:
        """The statuses of Brokers of a class that nobody serves."""
        statuses = map(namespaced_status, self.known())
        return [status for status in statuses if status is not None]

    def expected(self) -> frozenset[tuple[str, str, str]]:
        """What may be served later: ours, and the Subscriptions that core writes into our channels."""
        channels = {name_of(known.raw) for known in self.known() if known.kind == "KafkaChannel"}
        cores = self.known(State.FORMER, State.OTHERS)
        there = (*self.known(*STAYING), *(known for known in cores if is_written_into(known, channels)))
        return frozenset((known.kind, *name_of(known.raw)) for known in there)

    def adoptions(self) -> list[FinalizerChange]:
        """Which objects get our finalizer: those that will have something in Kafka."""
        return [
            change_finalizer(known, has=True) for known in self.known(State.LISTED) if owns_something(known.resource)
        ]

    def releases(self, in_kafka: Collection[str]) -> list[FinalizerChange]:
        """Which lose it. `in_kafka`: uids of which the contract or a removal in progress still has something; an object
        must not be gone before that is. What core has written into a channel is core's: its group goes with its
        entry."""
        over = [
            *self.known(State.DELETING),
            *(known for known in self.known(State.SERVED) if not owns_something(known.resource)),
        ]
        entries = self.entries()
        cores = self.known(State.FORMER, State.LEAVING)
        free = [known for known in (*over, *cores) if known.finalized and known.uid not in in_kafka]
        free += [known for known in cores if known.uid in entries and known.uid in in_kafka]
        return [change_finalizer(known, has=False) for known in free]


def _without_ghosts(known: Known, subscriptions: Collection[str]) -> Known:
    """Knative's core may leave entries of deleted Subscriptions in a channel for ever."""
    channel = known.resource
    if not isinstance(channel, KafkaChannel):
        return known
    served = tuple(entry for entry in channel.subscribers if entry.uid in subscriptions)
    ghosts = tuple(entry for entry in channel.subscribers if entry.uid not in subscriptions)
    return replace(known, resource=replace(channel, subscribers=served, ghosts=ghosts)) if ghosts else known


def _entries(known: Iterable[Known]) -> frozenset[str]:
    channels = (each.resource for each in known if isinstance(each.resource, KafkaChannel))
    return frozenset(entry.uid for channel in channels for entry in channel.subscribers)
