"""Assigns uid and generation to resources read from files.

The contract is the memory: after a restart, or in another process, uid and generation come from its records, even for a
resource that no file had for a while. Those that the contract does not have yet are *unpublished*: the leader records
them in the status topic before it acts on them, and the next leader inherits them. A resource that is created again
while its removal is in progress gets a new uid.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from controller.model import Key, Record
from controller.plan.actions import AnyObject, Object
from controller.source.directory import Snapshot
from knative.contract.leader_state import Identity, LeaderState
from knative.resources.values import KafkaChannel, Resource

#: Others read them, and nothing remembers them. A ResetOffset is in no contract either, but is remembered: its uid is
#: the id of its seek, and with a new one the next leader would move the offsets again.
_NEVER_PUBLISHED = ("ConfigMap", "EventType")


def _random_uid() -> str:
    return str(uuid.uuid4())


class Identities:
    """Uids and generations in memory, for as long as one process leads."""

    def __init__(self, new_uid: Callable[[], str] = _random_uid) -> None:
        self._new_uid = new_uid
        self._identities: dict[Key, Identity] = {}
        self._inherited: dict[Key, Identity] = {}  #: not seen in the directory yet

    def begin(self, state: LeaderState | None = None) -> None:
        """Begin a term: start from the contract and from the state that the last leader recorded, which may have been
        another process."""
        state = state or LeaderState()
        self._identities.clear()
        # A resource that is created again while its removal is in progress gets a new uid.
        self._inherited = {key: own for key, own in state.identities.items() if own.uid not in state.removals}

    def assign(
        self, snapshot: Snapshot, published: Iterable[Record], removing: Collection[str]
    ) -> tuple[AnyObject, ...]:
        """Returns the snapshot's objects with identity. `removing`: uids whose removal cannot be cancelled any more."""
        entries = entries_of(snapshot)
        # An entry of a channel may have the name of a Subscription, which must not get the entry's uid.
        records: Mapping[Key, Record] = {
            record.key: record
            for record in sorted(published, key=lambda record: record.uid)
            if record.uid not in removing and record.uid not in entries
        }
        self._identities = {
            written.key: self._identity(written.key, written.spec_hash, records.get(written.key))
            for written in snapshot.objects
        }
        self._inherited = {
            key: own for key, own in self._inherited.items() if key not in self._identities and not snapshot.complete
        }
        return tuple(self._object(written.key, written.resource) for written in snapshot.objects)

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """Returns the identities that are not in the contract: record them before these objects are acted on."""
        recorded = {Identity(record.uid, record.generation, record.spec_hash) for record in published}
        every = {**self._inherited, **self._identities}
        return {key: own for key, own in every.items() if own not in recorded and key[0] not in _NEVER_PUBLISHED}

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
        own = self._identities[key]
        made: Object[Any] = Object(own.uid, own.generation, own.spec_hash, resource)
        return made


def entries_of(snapshot: Snapshot) -> set[str]:
    """Returns the uids of the subscriptions in `spec.subscribers` of channels."""
    channels = (written.resource for written in snapshot.objects if isinstance(written.resource, KafkaChannel))
    return {entry.uid for channel in channels for entry in channel.subscribers}
