"""Who is who when objects come from files: a random uid for each (kind, namespace, name), a generation for each wish.

The contract is the memory: after a restart, or in another process, uid and generation come from its records. Refuses to
give the uid of what is being removed a second time: who comes back after a deletion is somebody new.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

from controller.actions import AnyObject, Object
from controller.directory import Key, Snapshot
from knative import contract
from knative.resources import KafkaChannel, Resource

Record = contract.Channel | contract.Subscription


def _random_uid() -> str:
    return str(uuid.uuid4())


class Identities:
    """Uids and generations in memory, for as long as one process leads."""

    def __init__(self, new_uid: Callable[[], str] = _random_uid) -> None:
        self._new_uid = new_uid
        self._known: dict[Key, tuple[str, int, str]] = {}  #: uid, generation, hash
        self._seen: set[Key] = set()

    def forget(self) -> None:
        """Start over, from the contract alone: another process may have led in between."""
        self._known.clear()
        self._seen.clear()

    def assign(
        self, snapshot: Snapshot, published: Iterable[Record], removing: Collection[str]
    ) -> tuple[AnyObject, ...]:
        """The snapshot's objects with identity. `removing`: uids whose removal is under way."""
        entries = {
            entry.uid
            for written in snapshot.objects
            if isinstance(written.resource, KafkaChannel)
            for entry in written.resource.subscribers
        }
        records: Mapping[Key, Record] = {
            (record.kind, record.namespace, record.name): record
            for record in sorted(published, key=lambda one: one.uid)
            if record.uid not in removing and record.uid not in entries
        }
        known: dict[Key, tuple[str, int, str]] = {}
        for written in snapshot.objects:
            known[written.key] = self._identity(written.key, written.spec_hash, records.get(written.key))
        self._known = known
        self._seen.update(known)
        return tuple(self._object(written.key, written.resource) for written in snapshot.objects)

    def held(self, snapshot: Snapshot, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """Uids of the contract that may belong to a file that nobody could read since this process leads."""
        if snapshot.complete:
            return frozenset()
        alive = {one.uid for one in objects}
        return frozenset(
            record.uid
            for record in published
            if record.uid not in alive and (record.kind, record.namespace, record.name) not in self._seen
        )

    def _identity(self, key: Key, spec_hash: str, record: Record | None) -> tuple[str, int, str]:
        before = self._known.get(key)
        if record is not None and (before is None or before[0] != record.uid):
            before = (record.uid, record.generation, record.spec_hash)
        if before is None:
            return self._new_uid(), 1, spec_hash
        uid, generation, old_hash = before
        if spec_hash == old_hash:
            return before
        return uid, max(generation, record.generation if record else 0) + 1, spec_hash

    def _object(self, key: Key, resource: Resource) -> AnyObject:
        uid, generation, spec_hash = self._known[key]
        if isinstance(resource, KafkaChannel):
            return Object(uid, generation, spec_hash, resource)
        return Object(uid, generation, spec_hash, resource)
