"""Assigns uid and generation to resources read from files.

The contract is the memory: after a restart, or in another process, uid and generation come from its records. Those
that the contract does not have yet are *unpublished*: the leader records them in the status topic before it acts on
them, and the next leader inherits them. If nothing in the directory is in the contract when this process begins to
lead, it is probably the wrong directory, or the Kafka of another installation. The published resources are then
*foreign*: kept until their own file appears here and is removed. A resource that is created again while its removal is
in progress gets a new uid.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from controller.model import FileProblem, Key, Record
from controller.plan.actions import AnyObject, Object
from controller.source.directory import Snapshot
from knative.contract.leader_state import Identity, LeaderState
from knative.contract.records import Subscription
from knative.resources.values import KafkaChannel, Resource

#: Brokers read it, and nothing else remembers it. A ResetOffset is in no contract either, but is remembered: its uid is
#: the id of its seek, and with a new one the next leader would move the offsets again.
_NEVER_PUBLISHED = "ConfigMap"


def _random_uid() -> str:
    return str(uuid.uuid4())


class Identities:
    """Uids and generations in memory, for as long as one process leads."""

    def __init__(self, new_uid: Callable[[], str] = _random_uid) -> None:
        self._new_uid = new_uid
        self._identities: dict[Key, Identity] = {}
        self._inherited: dict[Key, Identity] = {}  #: not seen in the directory yet
        self._released: set[str] = set()  #: uids that a person wants to remove
        self._seen: set[Key] = set()
        self._compared = False
        self.foreign: frozenset[str] = frozenset()  #: uids of the contract; save them before anything is published

    def forget(self, state: LeaderState | None = None) -> None:
        """Start again from the contract and the state that the last leader recorded, because it may have been another
        process."""
        state = state or LeaderState()
        self._identities.clear()
        self._released.clear()
        # A resource that is created again while its removal is in progress gets a new uid.
        self._inherited = {key: one for key, one in state.identities.items() if one.uid not in state.removals}
        self._seen.clear()
        self._compared = False
        self.foreign = state.foreign

    def find_foreign(
        self,
        snapshot: Snapshot,
        published: Iterable[Record],
        removing: Collection[str],
        asked: Collection[str] = (),
    ) -> tuple[FileProblem, ...]:
        """Find the foreign resources; returns the problem that there are some. Call it before `assign` and `retained`.

        `asked`: uids that a person wants to remove. They are no longer kept.
        """
        keys = {written.key for written in snapshot.objects}
        served = {record.uid: record for record in published if record.uid not in removing}
        if not self._compared and (keys or snapshot.complete):
            self._compared = True
            if not any(_key(record) in keys for record in served.values()):
                self.foreign |= served.keys()
        here = _entries(snapshot)
        self.foreign = frozenset(
            uid for uid in self.foreign & served.keys() if _key(served[uid]) not in keys and uid not in here
        )
        released = releasable(self.foreign & set(asked), served.values())
        self._released |= released
        self.foreign -= released
        return (_problem(sorted(_key(served[uid]) for uid in self.foreign)),) if self.foreign else ()

    def assign(
        self, snapshot: Snapshot, published: Iterable[Record], removing: Collection[str]
    ) -> tuple[AnyObject, ...]:
        """The snapshot's objects with identity. `removing`: uids whose removal cannot be cancelled any more."""
        entries = _entries(snapshot)
        # An entry of a channel may have the name of a Subscription, which must not get the entry's uid.
        records: Mapping[Key, Record] = {
            _key(record): record
            for record in sorted(published, key=lambda one: one.uid)
            if record.uid not in removing and record.uid not in entries
        }
        known: dict[Key, Identity] = {}
        for written in snapshot.objects:
            known[written.key] = self._identity(written.key, written.spec_hash, records.get(written.key))
        self._identities = known
        self._inherited = {
            key: one for key, one in self._inherited.items() if key not in known and not snapshot.complete
        }
        self._seen.update(known)
        return tuple(self._object(written.key, written.resource) for written in snapshot.objects)

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """The identities that are not in the contract: record them before anything is done with these objects."""
        known = {Identity(one.uid, one.generation, one.spec_hash) for one in published}
        found = {**self._inherited, **self._identities}
        return {key: one for key, one in found.items() if one not in known and key[0] != _NEVER_PUBLISHED}

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """Uids of the contract that must stay: foreign ones, and, unless the directory is known completely, those that
        may be in a file that was not read yet."""
        alive = {one.uid for one in objects}
        unseen = {record.uid for record in published if not complete and _key(record) not in self._seen}
        return (self.foreign | (unseen - self._released)) - alive

    def _identity(self, key: Key, spec_hash: str, record: Record | None) -> Identity:
        before = self._identities.get(key) or self._inherited.get(key)
        if record is not None and (before is None or before.uid != record.uid):
            before = Identity(record.uid, record.generation, record.spec_hash)
        if before is None:
            return Identity(self._new_uid(), 1, spec_hash)
        if spec_hash == before.spec_hash:
            return before
        return Identity(before.uid, max(before.generation, record.generation if record else 0) + 1, spec_hash)

    def _object(self, key: Key, resource: Resource) -> AnyObject:
        one = self._identities[key]
        found: Object[Any] = Object(one.uid, one.generation, one.spec_hash, resource)
        return found


def releasable(asked: Collection[str], served: Iterable[Record]) -> frozenset[str]:
    """The resources that may be removed: a channel only together with all its subscriptions."""
    read = {one.channel_uid for one in served if isinstance(one, Subscription) and one.uid not in asked}
    return frozenset(asked) - read


def _key(record: Record) -> Key:
    return record.kind, record.namespace, record.name


def _entries(snapshot: Snapshot) -> set[str]:
    """Uids of the subscriptions in `spec.subscribers` of channels."""
    channels = (one.resource for one in snapshot.objects if isinstance(one.resource, KafkaChannel))
    return {entry.uid for channel in channels for entry in channel.subscribers}


def _problem(foreign: list[Key]) -> FileProblem:
    kind, namespace, name = foreign[0]
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    what = f"resources in the contract ({kind} {namespace}/{name}{more}) were never in a file here; they are kept"
    hint = (
        "give this installation a name of its own (PENSTOCK_INSTANCE), or name the directory that they came from; "
        f"to have one removed: `penstock remove {kind}/{namespace}/{name} --yes`"
    )
    return FileProblem(".", 0, "", what, hint)
