"""The objects of a cluster as one table by uid, each with its state. Pure.

    ours                       LISTED --our finalizer--> SERVED     not valid: INVALID     deletionTimestamp: DELETING
    core's Subscriptions       FORMER --deletionTimestamp--> LEAVING     without our finalizer: OTHERS
    somebody else's Triggers   OTHERS
    without an object          GONE, MISSING

A state follows from an object, the class of its Broker, and whether core is there: each scan finds it again. What must
be remembered of a uid is in its row too, which outlives the object.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from controller.model import Key
from controller.plan.actions import AnyObject, WriteStatus
from controller.source.cluster.objects import (
    FinalizerChange,
    Known,
    broker_of,
    change_finalizer,
    grant,
    is_of_another_class,
    is_written_into,
    lacks_annotation,
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
    seen: bool = False  #: nothing has changed since its state was found


@dataclass(slots=True)
class Table:
    """What the last scan has found, and what is remembered of earlier ones."""

    core: bool = False  #: Subscriptions are entries of channels, which Knative's core writes
    synced: bool = False  #: every list was read once
    lists: frozenset[tuple[str, str]] = frozenset()  #: (kind, namespace) of what can be listed; "" = all namespaces
    rows: defaultdict[str, Row] = field(default_factory=lambda: defaultdict(Row))

    _in: defaultdict[State, set[str]] = field(default_factory=lambda: defaultdict(set))
    _named: dict[Key, str] = field(default_factory=dict)
    _brokers: dict[Name, bool] = field(default_factory=dict)  #: whether it is ours
    _triggers: defaultdict[Name, set[str]] = field(default_factory=lambda: defaultdict(set))  #: by Broker
    _listing: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  #: channels by entry
    _unannotated: set[str] = field(default_factory=set)  #: channels that Knative cannot subscribe to yet
    _gone: frozenset[str] = frozenset()
    _missing: set[str] = field(default_factory=set)
    _entries: frozenset[str] | None = None  #: None = not collected

    def is_new(self, raw: Raw) -> bool:
        """Whether this object, as it is, was not read yet."""
        row = self.rows.get(uid_of(raw))
        return row is None or row.known is None or row.known.raw is not raw

    def named(self, key: Key) -> str | None:
        """The uid of the object of this kind, namespace and name."""
        return self._named.get(key)

    def read(self, raws: Iterable[Raw], gone: Collection[str], read: Mapping[str, Known] | None = None) -> None:
        """These objects are there now, and no others. See `update`."""
        present = {uid_of(raw): raw for raw in raws}
        away = [uid for uid, row in self.rows.items() if row.known is not None and uid not in present]
        self.update([raw for raw in present.values() if self.is_new(raw)], away, gone, read)

    def update(
        self,
        raws: Iterable[Raw],
        away: Collection[str],
        gone: Collection[str],
        read: Mapping[str, Known] | None = None,
    ) -> set[str]:
        """These objects have changed, and those that are `away` are not there any more. `gone`: all uids of which a
        watch has said that they were deleted. `read`: by uid, those that were read already. Returns the uids of what
        may be decided in another way since."""
        changed: set[str] = set()
        for uid in away:
            changed |= self._replace(uid, None)
        for raw in raws:
            changed |= self._replace(uid_of(raw), (read or {}).get(uid_of(raw)) or read_object(raw))
        changed |= self._gone.symmetric_difference(gone)
        self._gone = frozenset(gone)
        return {uid for uid in changed if self._find_state(uid)}

    def _replace(self, uid: str, known: Known | None) -> set[str]:
        """The object is another one now; None = it is not there. Returns the uids of those whose state to find."""
        row = self.rows[uid]
        before, row.known = row.known, known
        found = {uid}
        for state in (before, known):
            if state is not None and state.kind == "Broker":
                found |= self._triggers.get(name_of(state.raw), set())
            if state is not None and state.kind == "Subscription" and (before is None or known is None):
                for channel in self._listing.get(uid, ()):  # it has a ghost less, or one more
                    self.rows[channel].seen = False
                    found.add(channel)
        if before is not None:
            self._unlink(uid, before)
        if known is not None:
            self._link(uid, known)
        if known is None or before is None or before.facts != known.facts:
            row.seen = False
        return found

    def _link(self, uid: str, known: Known) -> None:
        name = name_of(known.raw)
        self._named[known.kind, name[0], name[1]] = uid
        if known.kind == "Broker":
            self._brokers[name] = owns_something(known.resource) or known.finalized
        if known.kind == "Trigger":
            self._triggers[broker_of(known.raw)].add(uid)
        if lacks_annotation(known):
            self._unannotated.add(uid)
        for entry in _entries_of(known):
            self._listing[entry].add(uid)
            self.rows[entry].was_entry = True

    def _unlink(self, uid: str, known: Known) -> None:
        name = name_of(known.raw)
        if self._named.get((known.kind, *name)) == uid:
            del self._named[known.kind, name[0], name[1]]
            if known.kind == "Broker":
                self._brokers.pop(name, None)
        if known.kind == "Trigger":
            self._triggers[broker_of(known.raw)].discard(uid)
        self._unannotated.discard(uid)
        for entry in _entries_of(known):
            self._listing[entry].discard(uid)

    def _find_state(self, uid: str) -> bool:
        """Whether it, or what is known of the object, has changed."""
        row = self.rows[uid]
        before = row.state
        if row.known is not None:
            row.state = self._state_of(row.known, self._brokers)
        else:
            row.state = State.GONE if uid in self._gone else State.MISSING
        self._in[before].discard(uid)
        self._in[row.state].add(uid)
        if row.known is None or row.known.kind == "KafkaChannel":
            self._entries = None
        seen, row.seen = row.seen, True
        if row.state is State.MISSING and not (row.was_entry or row.released or row.missing_since is not None):
            self._in[row.state].discard(uid)
            del self.rows[uid]
        return not seen or before is not row.state

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
        for uid in self._missing | since.keys():
            self.rows[uid].missing_since = since.get(uid)
        self._missing = set(since)
        return since

    # -- questions

    def known(self, *states: State) -> list[Known]:
        """The objects in these states; without a state all."""
        uids = [uid for state in states for uid in sorted(self._in[state])] if states else list(self.rows)
        return [known for uid in uids if (known := self.rows[uid].known) is not None]

    def is_served_channel(self, known: Known) -> bool:
        """Whether it is a KafkaChannel that is served, perhaps as before."""
        state = self.rows[known.uid].state
        return known.kind == "KafkaChannel" and (state is State.SERVED or (state is State.INVALID and known.finalized))

    def ours(self, key: Key) -> Known | None:
        """The object with this key, if it may be acted on and has something in Kafka."""
        row = self.rows.get(self._named.get(key, ""))
        known = row.known if row is not None and row.state is State.SERVED else None
        return known if known is not None and owns_something(known.resource) else None

    def entries(self) -> frozenset[str]:
        """Uids of the subscribers that the channels list which are served."""
        if self._entries is None:
            self._entries = frozenset(
                entry
                for entry, channels in self._listing.items()
                if any(self.rows[channel].state is State.SERVED for channel in channels)
            )
        return self._entries

    def object_of(self, uid: str) -> AnyObject | None:
        """The object, if it may be acted on. A Broker of another class is not served, but its Triggers must not be
        taken for ours."""
        row = self.rows.get(uid)
        if row is None or row.known is None:
            return None
        if row.state is State.SERVED:
            return (self._without_ghosts(row.known) if self.core else row.known).as_object()
        return row.known.as_object() if is_of_another_class(row.known) else None

    def objects(self) -> list[AnyObject]:
        """All of them."""
        return [found for uid in list(self.rows) if (found := self.object_of(uid)) is not None]

    def _without_ghosts(self, known: Known) -> Known:
        """Knative's core may leave entries of deleted Subscriptions in a channel for ever."""
        channel = known.resource
        if not isinstance(channel, KafkaChannel):
            return known
        ghosts = tuple(entry for entry in channel.subscribers if not self._is_subscription(entry.uid))
        served = tuple(entry for entry in channel.subscribers if entry not in ghosts)
        return replace(known, resource=replace(channel, subscribers=served, ghosts=ghosts)) if ghosts else known

    def _is_subscription(self, uid: str) -> bool:
        row = self.rows.get(uid)
        return row is not None and row.known is not None and row.known.kind == "Subscription"

    def written(self) -> list[Known]:
        """Ours, without the Triggers whose Broker has another class now: they have our finalizer until they go, and
        their status is somebody else's."""
        others = {name_of(known.raw) for known in self.known() if is_of_another_class(known)}
        return [known for known in self.known(*OURS) if known.kind != "Trigger" or broker_of(known.raw) not in others]

    def refused(self) -> list[WriteStatus]:
        """The statuses of objects that are not served because their finalizer is refused."""
        return [
            known.not_ready("FinalizerForbidden", f"{refused.why}; {grant('patch', known.kind)}")
            for known in self.known(State.LISTED)
            if (refused := self.rows[known.uid].refused) is not None and refused.forbidden
        ]

    def namespaced(self) -> list[WriteStatus]:
        """The statuses of Brokers of a class that nobody serves."""
        statuses = map(namespaced_status, self._others())
        return [status for status in statuses if status is not None]

    def _others(self) -> list[Known]:
        """Brokers of other classes."""
        uids = [self._named["Broker", namespace, name] for namespace, name in self._brokers]
        brokers = [known for uid in uids if (known := self.rows[uid].known) is not None]
        return [known for known in brokers if not owns_something(known.resource)]

    def expected(self) -> frozenset[tuple[str, str, str]]:
        """What may be served later: ours, and the Subscriptions that core writes into our channels."""
        channels = {name_of(known.raw) for known in self.known() if known.kind == "KafkaChannel"}
        cores = self.known(State.FORMER, State.OTHERS)
        there = (*self.known(*STAYING), *(known for known in cores if is_written_into(known, channels)))
        return frozenset((known.kind, *name_of(known.raw)) for known in there)

    def adoptions(self) -> list[FinalizerChange]:
        """Which objects get our finalizer: those that will have something in Kafka, and channels that had it before
        their annotation. Each namespace has its turn, and what was refused comes last."""
        ranks: Counter[tuple[bool, str]] = Counter()
        found = []
        for known in (*self.known(State.LISTED), *self.unannotated()):
            if not owns_something(known.resource):
                continue
            refused = self.rows[known.uid].refused is not None
            ranks[refused, name_of(known.raw)[0]] += 1
            found.append((refused, ranks[refused, name_of(known.raw)[0]], known.uid, known))
        return [change_finalizer(known, has=True) for *_, known in sorted(found, key=lambda row: row[:3])]

    def unannotated(self) -> list[Known]:
        """Served channels that had our finalizer before their annotation."""
        rows = [self.rows[uid] for uid in sorted(self._unannotated)]
        return [row.known for row in rows if row.state is State.SERVED and row.known is not None]

    def releases(self, in_kafka: Collection[str]) -> list[FinalizerChange]:
        """Which lose it. `in_kafka`: uids of which the contract or a removal in progress still has something; an object
        must not be gone before that is. What core has written into a channel is core's: its group goes with its
        entry."""
        over = [
            *self.known(State.DELETING),
            *(known for known in self._others() if self.rows[known.uid].state is State.SERVED),
        ]
        entries = self.entries()
        cores = self.known(State.FORMER, State.LEAVING)
        free = [known for known in (*over, *cores) if known.finalized and known.uid not in in_kafka]
        free += [known for known in cores if known.uid in entries and known.uid in in_kafka]
        return [change_finalizer(known, has=False) for known in free]


def _entries_of(known: Known) -> list[str]:
    return [entry.uid for entry in known.resource.subscribers] if isinstance(known.resource, KafkaChannel) else []
