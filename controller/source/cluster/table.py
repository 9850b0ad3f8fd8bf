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
    ClusterObject,
    FinalizerChange,
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
    object: ClusterObject | None = None  #: the object as it was read last; None = it is not there
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
        """Returns whether this object, as it is, was not read yet."""
        row = self.rows.get(uid_of(raw))
        return row is None or row.object is None or row.object.raw is not raw

    def named(self, key: Key) -> str | None:
        """Returns the uid of the object of this kind, namespace and name."""
        return self._named.get(key)

    def read(self, raws: Iterable[Raw], gone: Collection[str], read: Mapping[str, ClusterObject] | None = None) -> None:
        """Take these objects as all that exist now. See `update`."""
        present = {uid_of(raw): raw for raw in raws}
        away = [uid for uid, row in self.rows.items() if row.object is not None and uid not in present]
        self.update([raw for raw in present.values() if self.is_new(raw)], away, gone, read)

    def update(
        self,
        raws: Iterable[Raw],
        away: Collection[str],
        gone: Collection[str],
        read: Mapping[str, ClusterObject] | None = None,
    ) -> set[str]:
        """Take these objects as changed, and those that are `away` as no longer there. `gone`: all uids that a watch
        has reported as deleted. `read`: by uid, the objects that were read already. Returns the uids whose decisions
        may have changed."""
        changed: set[str] = set()
        for uid in away:
            changed |= self._replace(uid, None)
        for raw in raws:
            changed |= self._replace(uid_of(raw), (read or {}).get(uid_of(raw)) or read_object(raw))
        changed |= self._gone.symmetric_difference(gone)
        self._gone = frozenset(gone)
        return {uid for uid in changed if self._find_state(uid)}

    def _replace(self, uid: str, object_: ClusterObject | None) -> set[str]:
        """Put an object in the row of a uid; None = it is not there. Returns the uids whose state must be found
        again."""
        row = self.rows[uid]
        before, row.object = row.object, object_
        uids = {uid}
        for state in (before, object_):
            if state is not None and state.kind == "Broker":
                uids |= self._triggers.get(name_of(state.raw), set())
            if state is not None and state.kind == "Subscription" and (before is None or object_ is None):
                for channel in self._listing.get(uid, ()):  # it has one ghost more, or one less
                    self.rows[channel].seen = False
                    uids.add(channel)
        if before is not None:
            self._unlink(uid, before)
        if object_ is not None:
            self._link(uid, object_)
        if object_ is None or before is None or before.facts != object_.facts:
            row.seen = False
        return uids

    def _link(self, uid: str, object_: ClusterObject) -> None:
        name = name_of(object_.raw)
        self._named[object_.key] = uid
        if object_.kind == "Broker":
            self._brokers[name] = owns_something(object_.resource) or object_.finalized
        if object_.kind == "Trigger":
            self._triggers[broker_of(object_.raw)].add(uid)
        if lacks_annotation(object_):
            self._unannotated.add(uid)
        for entry in _entries_of(object_):
            self._listing[entry].add(uid)
            self.rows[entry].was_entry = True

    def _unlink(self, uid: str, object_: ClusterObject) -> None:
        name = name_of(object_.raw)
        if self._named.get(object_.key) == uid:
            del self._named[object_.key]
            if object_.kind == "Broker":
                self._brokers.pop(name, None)
        if object_.kind == "Trigger":
            self._triggers[broker_of(object_.raw)].discard(uid)
        self._unannotated.discard(uid)
        for entry in _entries_of(object_):
            self._listing[entry].discard(uid)

    def _find_state(self, uid: str) -> bool:
        """Finds the state of a row. Returns whether the state, or what is known of the object, has changed."""
        row = self.rows[uid]
        before = row.state
        if row.object is not None:
            row.state = self._state_of(row.object, self._brokers)
        else:
            row.state = State.GONE if uid in self._gone else State.MISSING
        self._in[before].discard(uid)
        self._in[row.state].add(uid)
        if row.object is None or row.object.kind == "KafkaChannel":
            self._entries = None
        seen, row.seen = row.seen, True
        if row.state is State.MISSING and not (row.was_entry or row.released or row.missing_since is not None):
            self._in[row.state].discard(uid)
            del self.rows[uid]
        return not seen or before is not row.state

    def _state_of(self, object_: ClusterObject, brokers: Mapping[Name, bool]) -> State:
        """Returns the state of an object. With Knative's core, core owns Subscriptions. A Trigger belongs to whoever
        serves its Broker: if the Broker is of another class, or its class is not known yet and core is there, the
        Trigger is somebody else's, unless it was ours. That holds for Triggers that are not valid here, because other
        implementations have other rules."""
        if self.core and object_.kind == "Subscription":
            if not object_.finalized:
                return State.OTHERS
            return State.LEAVING if object_.deleting else State.FORMER
        if object_.kind == "Trigger" and not (object_.finalized or brokers.get(broker_of(object_.raw), not self.core)):
            return State.OTHERS
        if object_.deleting:
            return State.DELETING
        if object_.resource is None:
            return State.INVALID
        return State.SERVED if object_.finalized or isinstance(object_.resource, ResetOffset) else State.LISTED

    def missing(self, uids: Collection[str], now: float) -> Mapping[str, float]:
        """Take these uids as all that are missing; returns since when each is. `now`: Unix seconds."""
        since = {uid: self.rows[uid].missing_since or now for uid in uids}
        for uid in self._missing | since.keys():
            self.rows[uid].missing_since = since.get(uid)
        self._missing = set(since)
        return since

    # -- questions

    def present(self, *states: State) -> list[ClusterObject]:
        """Returns the objects in these states; without a state all."""
        uids = [uid for state in states for uid in sorted(self._in[state])] if states else list(self.rows)
        return [object_ for uid in uids if (object_ := self.rows[uid].object) is not None]

    def is_served_channel(self, object_: ClusterObject) -> bool:
        """Returns whether it is a KafkaChannel that is served, perhaps as before."""
        state = self.rows[object_.uid].state
        as_before = state is State.INVALID and object_.finalized
        return object_.kind == "KafkaChannel" and (state is State.SERVED or as_before)

    def ours(self, key: Key) -> ClusterObject | None:
        """Returns the object with this key, if it may be acted on and has something in Kafka."""
        row = self.rows.get(self._named.get(key, ""))
        object_ = row.object if row is not None and row.state is State.SERVED else None
        return object_ if object_ is not None and owns_something(object_.resource) else None

    def entries(self) -> frozenset[str]:
        """Returns the uids of the subscribers that the channels list which are served."""
        if self._entries is None:
            self._entries = frozenset(
                entry
                for entry, channels in self._listing.items()
                if any(self.rows[channel].state is State.SERVED for channel in channels)
            )
        return self._entries

    def object_of(self, uid: str) -> AnyObject | None:
        """Returns the object, if it may be acted on. A Broker of another class is not served, but its Triggers must not
        be taken for ours."""
        row = self.rows.get(uid)
        if row is None or row.object is None:
            return None
        if row.state is State.SERVED:
            return (self._without_ghosts(row.object) if self.core else row.object).as_object()
        return row.object.as_object() if is_of_another_class(row.object) else None

    def objects(self) -> list[AnyObject]:
        """Returns all objects that may be acted on."""
        return [object_ for uid in list(self.rows) if (object_ := self.object_of(uid)) is not None]

    def _without_ghosts(self, object_: ClusterObject) -> ClusterObject:
        """Knative's core may leave entries of deleted Subscriptions in a channel for ever."""
        channel = object_.resource
        if not isinstance(channel, KafkaChannel):
            return object_
        ghosts = tuple(entry for entry in channel.subscribers if not self._is_subscription(entry.uid))
        served = tuple(entry for entry in channel.subscribers if entry not in ghosts)
        return replace(object_, resource=replace(channel, subscribers=served, ghosts=ghosts)) if ghosts else object_

    def _is_subscription(self, uid: str) -> bool:
        row = self.rows.get(uid)
        return row is not None and row.object is not None and row.object.kind == "Subscription"

    def written(self) -> list[ClusterObject]:
        """Returns ours, without the Triggers whose Broker has another class now: they have our finalizer until they go,
        and their status is somebody else's."""
        others = {name_of(object_.raw) for object_ in self.present() if is_of_another_class(object_)}
        ours = self.present(*OURS)
        return [object_ for object_ in ours if object_.kind != "Trigger" or broker_of(object_.raw) not in others]

    def refused(self) -> list[WriteStatus]:
        """Returns the statuses of objects that are not served because their finalizer is refused."""
        return [
            object_.not_ready("FinalizerForbidden", f"{refused.why}; {grant('patch', object_.kind)}")
            for object_ in self.present(State.LISTED)
            if (refused := self.rows[object_.uid].refused) is not None and refused.forbidden
        ]

    def namespaced(self) -> list[WriteStatus]:
        """Returns the statuses of Brokers of a class that nobody serves."""
        statuses = map(namespaced_status, self._others())
        return [status for status in statuses if status is not None]

    def _others(self) -> list[ClusterObject]:
        """Returns the Brokers of other classes."""
        uids = [self._named["Broker", namespace, name] for namespace, name in self._brokers]
        brokers = [object_ for uid in uids if (object_ := self.rows[uid].object) is not None]
        return [object_ for object_ in brokers if not owns_something(object_.resource)]

    def expected(self) -> frozenset[Key]:
        """Returns what may be served later: ours, and the Subscriptions that core writes into our channels."""
        channels = {name_of(object_.raw) for object_ in self.present() if object_.kind == "KafkaChannel"}
        cores = self.present(State.FORMER, State.OTHERS)
        objects = (*self.present(*STAYING), *(object_ for object_ in cores if is_written_into(object_, channels)))
        return frozenset(object_.key for object_ in objects)

    def adoptions(self) -> list[FinalizerChange]:
        """Returns which objects get our finalizer: those that will have something in Kafka, and channels that had it
        before their annotation. Each namespace has its turn, and what was refused comes last."""
        ranks: Counter[tuple[bool, str]] = Counter()
        ranked = []
        for object_ in (*self.present(State.LISTED), *self.unannotated()):
            if not owns_something(object_.resource):
                continue
            refused = self.rows[object_.uid].refused is not None
            ranks[refused, name_of(object_.raw)[0]] += 1
            ranked.append((refused, ranks[refused, name_of(object_.raw)[0]], object_.uid, object_))
        return [change_finalizer(object_, has=True) for *_, object_ in sorted(ranked, key=lambda row: row[:3])]

    def unannotated(self) -> list[ClusterObject]:
        """Returns served channels that had our finalizer before their annotation."""
        rows = [self.rows[uid] for uid in sorted(self._unannotated)]
        return [row.object for row in rows if row.state is State.SERVED and row.object is not None]

    def releases(self, in_kafka: Collection[str]) -> list[FinalizerChange]:
        """Returns the objects that lose our finalizer. `in_kafka`: uids of which the contract or a removal in progress
        still has something; an object must not be gone before that is. What core has written into a channel is core's:
        its group goes with its entry."""
        over = [
            *self.present(State.DELETING),
            *(object_ for object_ in self._others() if self.rows[object_.uid].state is State.SERVED),
        ]
        entries = self.entries()
        cores = self.present(State.FORMER, State.LEAVING)
        free = [object_ for object_ in (*over, *cores) if object_.finalized and object_.uid not in in_kafka]
        free += [object_ for object_ in cores if object_.uid in entries and object_.uid in in_kafka]
        return [change_finalizer(object_, has=False) for object_ in free]


def _entries_of(object_: ClusterObject) -> list[str]:
    return [entry.uid for entry in object_.resource.subscribers] if isinstance(object_.resource, KafkaChannel) else []
