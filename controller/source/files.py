"""A directory of files as a source of resources: `Directory` finds the objects, `Identities` says who they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from controller.model import FileProblem, Key, Record
from controller.plan.actions import AnyObject, ClusterView, WriteStatus
from controller.plan.deletion import removable
from controller.source.declared_types import by_channel
from controller.source.directory import Directory, Snapshot
from controller.source.identities import Identities, entries_of
from controller.source.interface import Scan
from knative.contract.leader_state import Identity, LeaderState, Removal
from knative.resources.values import EventType


class FileSource:
    """See `controller.source.interface`."""

    foreign: frozenset[str] = frozenset()  #: none: what no file has is not served

    def __init__(self, root: Path) -> None:
        self._directory = Directory(root)
        self._identities = Identities()
        self._snapshot = Snapshot()
        self._alive: frozenset[str] = frozenset()
        self._vanished: Mapping[str, float] = {}
        self.released: frozenset[str] = frozenset()

    async def start(self, changed: Callable[[], None]) -> None:
        """Check the directory. Nothing says when a file changes: it is scanned at intervals."""
        await asyncio.to_thread(self._directory.check)

    async def stop(self) -> None:
        """Nothing runs between two scans."""

    async def scan(self) -> Scan:
        """Read what has changed."""
        self._snapshot = await asyncio.to_thread(self._directory.scan)
        resources = (written.resource for written in self._snapshot.objects)
        declared = by_channel(
            (resource.channel, resource.type) for resource in resources if isinstance(resource, EventType)
        )
        return Scan(self._snapshot, self._snapshot.problems, self._snapshot.complete, declared)

    polled = True
    waits = False

    def take_dirty(self) -> frozenset[str] | None:
        """Returns None: everything."""
        return None

    def object_of(self, uid: str) -> AnyObject | None:
        """Nothing is looked at alone."""
        return None

    def begin(self, state: LeaderState) -> None:
        """Start again from the contract and what the last leader recorded."""
        self._identities.begin(state)
        self.released, self._vanished = frozenset(), {}

    def find_foreign(
        self, published: Iterable[Record], removing: Collection[str], asked: Collection[str]
    ) -> tuple[FileProblem, ...]:
        """Returns no problem. `released`: what a person wants to remove."""
        records = [record for record in published if record.uid not in removing]
        # One that is in a file again is not unlisted any more, and is not removed when its file goes the next time.
        uids = {record.uid for record in records if record.unlisted}
        self.released = removable((self.released | frozenset(asked)) & uids, records)
        return ()

    async def prepare(self) -> bool:
        """Nothing has to be prepared before objects are acted on."""
        return False

    def objects(self, published: Iterable[Record], retracted: Collection[str]) -> tuple[AnyObject, ...]:
        """Returns all objects in files."""
        objects = self._identities.assign(self._snapshot, published, retracted)
        self._alive = frozenset(object_.uid for object_ in objects) | entries_of(self._snapshot)
        return objects

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """Returns all that was not found, as long as the directory is not known completely."""
        return frozenset() if complete else frozenset(record.uid for record in published) - self._alive

    def retained_creations(self, complete: bool, creations: Mapping[str, Removal]) -> frozenset[str]:
        """Returns the creations that stay: those with topics, and all while the directory is not known completely. A
        group alone has no events, and its start is committed again with its file."""
        return frozenset(uid for uid, creation in creations.items() if creation.topics or not complete)

    def vanished(self, complete: bool, creations: Mapping[str, Removal], now: float) -> Mapping[str, float]:
        """Returns the creations whose file is gone."""
        if complete:
            gone = creations.keys() - self._alive
            self._vanished = {uid: self._vanished.get(uid, now) for uid in gone}
        return self._vanished

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """Returns the identities that the contract does not have yet."""
        return self._identities.unpublished(published)

    def view(self, *, whole: bool = True) -> ClusterView | None:
        """Returns None: there is no cluster."""
        return None

    def statuses(self) -> list[WriteStatus]:
        """Returns no statuses: a file that is not valid is a problem of the directory."""
        return []

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        """Returns no statuses: status files are the leader's, and without Kafka nobody leads."""
        return []

    async def release(self, in_kafka: frozenset[str]) -> None:
        """Nothing holds a file back."""
