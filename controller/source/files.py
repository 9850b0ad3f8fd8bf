"""A directory of files as a source of resources: `Directory` finds the objects, `Identities` says who they are."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from controller.model import FileProblem, Key, Record
from controller.plan.actions import AnyObject, ClusterView, WriteStatus
from controller.source.directory import Directory, Snapshot
from controller.source.identities import Identities
from controller.source.interface import Scan
from knative.contract.leader_state import Identity, LeaderState, Removal


class FileSource:
    """See `controller.source.interface`."""

    def __init__(self, root: Path) -> None:
        self._directory = Directory(root)
        self._identities = Identities()
        self._snapshot = Snapshot()
        self.place = f"{platform.node()}:{root.absolute()}"

    async def start(self, changed: Callable[[], None]) -> None:
        """Check the directory. Nothing says when a file changes: it is scanned at intervals."""
        await asyncio.to_thread(self._directory.check)

    async def stop(self) -> None:
        """Nothing runs between two scans."""

    async def scan(self) -> Scan:
        """Read what has changed."""
        self._snapshot = await asyncio.to_thread(self._directory.scan)
        return Scan(self._snapshot, self._snapshot.problems, self._snapshot.complete)

    def begin(self, state: LeaderState) -> None:
        """Start again from the contract and what the last leader recorded."""
        self._identities.forget(state)

    @property
    def foreign(self) -> frozenset[str]:
        """See `Identities`."""
        return self._identities.foreign

    def find_foreign(
        self, published: Iterable[Record], removing: Collection[str], asked: Collection[str]
    ) -> tuple[FileProblem, ...]:
        """See `Identities`."""
        return self._identities.find_foreign(self._snapshot, published, removing, asked)

    async def prepare(self) -> None:
        """A file that is removed takes effect when it is missed: nothing has to be prepared."""

    def objects(self, published: Iterable[Record], retracted: Collection[str]) -> tuple[AnyObject, ...]:
        """All objects in files."""
        return self._identities.assign(self._snapshot, published, retracted)

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """See `Identities`."""
        return self._identities.retained(complete, published, objects)

    def retained_creations(self, complete: bool, creations: Mapping[str, Removal]) -> frozenset[str]:
        """All, unless the directory is known completely."""
        return frozenset() if complete else frozenset(creations)

    def vanished(self, complete: bool, creations: Mapping[str, Removal], now: float) -> Mapping[str, float]:
        """None: a file that is gone was deleted."""
        return {}

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """Those that the contract does not have yet."""
        return self._identities.unpublished(published)

    def view(self) -> ClusterView | None:
        """There is no cluster."""
        return None

    def statuses(self) -> list[WriteStatus]:
        """None: a file that is not valid is a problem of the directory."""
        return []

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        """None: status files are the leader's, and without Kafka nobody leads."""
        return []

    async def release(self, in_kafka: frozenset[str]) -> None:
        """A file is gone when its removal begins."""
