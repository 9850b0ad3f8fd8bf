"""Who is who when objects come from files: a random uid for each (kind, namespace, name), a generation for each wish.

The contract is the memory: after a restart, or in another process, uid and generation come from its records. When this
process begins to lead and nothing in the directory is in the contract, it is likely to be the wrong directory, or the
Kafka of another installation: what is served then are strangers, and none of them is removed until its own file was
here. Refuses to give the uid of what is being removed a second time: who comes back after a deletion is somebody new.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

from controller.plan.actions import AnyObject, Object
from controller.source.directory import FileProblem, Key, Snapshot
from knative.contract import records as contract
from knative.resources.kinds import KafkaChannel, Resource

Record = contract.Channel | contract.Subscription


def _random_uid() -> str:
    return str(uuid.uuid4())


class Identities:
    """Uids and generations in memory, for as long as one process leads."""

    def __init__(self, new_uid: Callable[[], str] = _random_uid) -> None:
        self._new_uid = new_uid
        self._identities: dict[Key, tuple[str, int, str]] = {}  #: uid, generation, hash
        self._seen: set[Key] = set()
        self._compared = False
        self.strangers: frozenset[str] = frozenset()  #: uids of the contract; to be noted before anything is done

    def forget(self, strangers: Collection[str] = ()) -> None:
        """Start over, from the contract alone: another process may have led in between. `strangers`: as noted."""
        self._identities.clear()
        self._seen.clear()
        self._compared = False
        self.strangers = frozenset(strangers)

    def find_foreign(
        self,
        snapshot: Snapshot,
        published: Iterable[Record],
        removing: Collection[str],
        asked: Collection[str] = (),
    ) -> tuple[FileProblem, ...]:
        """Find out who the strangers are; the problem that there are some. Before `assign` and `retained`.

        `asked`: uids that a person wants removed; a stranger among them is no longer kept.
        """
        keys = {written.key for written in snapshot.objects}
        served = {record.uid: record for record in published if record.uid not in removing}
        if not self._compared and (keys or snapshot.complete):
            self._compared = True
            if not any(_key(record) in keys for record in served.values()):
                self.strangers |= served.keys()
        here = _entries(snapshot)
        self.strangers = frozenset(
            uid for uid in self.strangers & served.keys() if _key(served[uid]) not in keys and uid not in here
        )
        self.strangers -= releasable(self.strangers & set(asked), served.values())
        return (_problem(sorted(_key(served[uid]) for uid in self.strangers)),) if self.strangers else ()

    def assign(
        self, snapshot: Snapshot, published: Iterable[Record], removing: Collection[str]
    ) -> tuple[AnyObject, ...]:
        """The snapshot's objects with identity. `removing`: uids whose removal is under way."""
        entries = _entries(snapshot)
        records: Mapping[Key, Record] = {
            _key(record): record
            for record in sorted(published, key=lambda one: one.uid)
            if record.uid not in removing and record.uid not in entries
        }
        known: dict[Key, tuple[str, int, str]] = {}
        for written in snapshot.objects:
            known[written.key] = self._identity(written.key, written.spec_hash, records.get(written.key))
        self._identities = known
        self._seen.update(known)
        return tuple(self._object(written.key, written.resource) for written in snapshot.objects)

    def retained(self, snapshot: Snapshot, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """Uids of the contract that must stay: strangers, and what may be in a file that nobody could read so far."""
        alive = {one.uid for one in objects}
        unseen = {record.uid for record in published if not snapshot.complete and _key(record) not in self._seen}
        return (self.strangers | unseen) - alive

    def _identity(self, key: Key, spec_hash: str, record: Record | None) -> tuple[str, int, str]:
        before = self._identities.get(key)
        if record is not None and (before is None or before[0] != record.uid):
            before = (record.uid, record.generation, record.spec_hash)
        if before is None:
            return self._new_uid(), 1, spec_hash
        uid, generation, old_hash = before
        if spec_hash == old_hash:
            return before
        return uid, max(generation, record.generation if record else 0) + 1, spec_hash

    def _object(self, key: Key, resource: Resource) -> AnyObject:
        uid, generation, spec_hash = self._identities[key]
        if isinstance(resource, KafkaChannel):
            return Object(uid, generation, spec_hash, resource)
        return Object(uid, generation, spec_hash, resource)


def releasable(asked: Collection[str], served: Iterable[Record]) -> frozenset[str]:
    """Those that may go: a channel only together with every subscription that reads it."""
    read = {one.channel_uid for one in served if isinstance(one, contract.Subscription) and one.uid not in asked}
    return frozenset(asked) - read


def _key(record: Record) -> Key:
    return record.kind, record.namespace, record.name


def _entries(snapshot: Snapshot) -> set[str]:
    """Uids of subscriptions that somebody else has resolved, within channels."""
    channels = (one.resource for one in snapshot.objects if isinstance(one.resource, KafkaChannel))
    return {entry.uid for channel in channels for entry in channel.subscribers}


def _problem(strangers: list[Key]) -> FileProblem:
    kind, namespace, name = strangers[0]
    more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
    what = f"what was served before ({kind} {namespace}/{name}{more}) never was in a file here; it stays"
    hint = (
        "give this installation a name of its own (PENSTOCK_INSTANCE), or name the directory that they came from; "
        f"to have one removed: `penstock remove {kind}/{namespace}/{name} --yes`"
    )
    return FileProblem(".", 0, "", what, hint)
