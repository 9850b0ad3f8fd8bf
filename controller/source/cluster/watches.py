"""The watchers of a cluster: those that are needed run, the others stop. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping

from controller.kube.api_server import ApiServer
from controller.model import Trouble
from controller.source.cluster.store import ObjectStore, Raw
from controller.source.cluster.watcher import Collection, Watcher

Trim = Callable[[Raw], Raw]


class Watches:
    """Watchers by collection."""

    def __init__(self, api: ApiServer, changed: Callable[[], None], crashed: Callable[[BaseException], None]) -> None:
        self._api = api
        self._changed = changed
        self._crashed = crashed
        self._watchers: dict[Collection, Watcher] = {}
        self._tasks: dict[Collection, asyncio.Task[None]] = {}

    def need(self, collections: Mapping[Collection, Trim]) -> None:
        """Run the watchers of these collections, and no others."""
        for collection in self._tasks.keys() - collections.keys():
            self._tasks.pop(collection).cancel()
            del self._watchers[collection]
        for collection in collections.keys() - self._tasks.keys():
            watcher = Watcher(self._api, collection, ObjectStore(collections[collection]), self._changed)
            task = asyncio.create_task(watcher.run(), name=f"watch {collection}")
            task.add_done_callback(self._ended)
            self._watchers[collection], self._tasks[collection] = watcher, task

    async def stop(self) -> None:
        """Stop all."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()
        self._watchers.clear()

    def stores(self, collections: Iterable[Collection]) -> list[ObjectStore]:
        """Returns the stores of those that run."""
        return [self._watchers[collection].store for collection in collections if collection in self._watchers]

    def problems(self) -> list[tuple[Collection, str, float]]:
        """Returns what cannot be read now, why, and since which Unix second."""
        return [
            (collection, watcher.problem, watcher.since)
            for collection, watcher in self._watchers.items()
            if watcher.problem
        ]

    def troubles(self, needed: Iterable[Collection], optional: Container[Collection] = ()) -> list[Trouble]:
        """Returns what cannot be read now, or was never read. `needed`: nothing is served as asked for without these.
        `optional`: nothing is amiss without these, of which the log says it."""
        stops = frozenset(needed)
        return [
            Trouble(
                "watch",
                str(collection),
                watcher.since,
                watcher.problem or "it is not listed yet",
                stops=collection in stops,
            )
            for collection, watcher in self._watchers.items()
            if collection not in optional and not watcher.absent and (watcher.problem or not watcher.store.synced)
        ]

    def forbidden(self) -> dict[Collection, str]:
        """Returns what this user may not read, in the server's words."""
        return {collection: watcher.problem for collection, watcher in self._watchers.items() if watcher.forbidden}

    def absent(self) -> frozenset[Collection]:
        """Returns what cannot be read because its kind is not installed."""
        return frozenset(collection for collection, watcher in self._watchers.items() if watcher.absent)

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._crashed(problem)
