"""Resources from a cluster: what its watchers know, as objects to be served.

    watchers -> stores -> read_object -> objects: valid, with our finalizer, not being deleted
                                     `-> invalid: served as before, status SpecInvalid
    what objects refer to -> further watchers (Services, ConfigMaps, any Addressable)

The API server gave the objects their uids and generations. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from controller.kube.api_server import MERGE, ApiServer
from controller.kube.errors import ASK_DOCTOR, CONFLICT, NOT_FOUND, ApiError
from controller.model import FileProblem, Key, Record
from controller.plan.actions import AnyObject, ClusterView, WriteStatus
from controller.plan.outage import outage_status
from controller.source.cluster import keeping
from controller.source.cluster.mode import CORE_PATH, MEANS, find_mode
from controller.source.cluster.objects import (
    FinalizerChange,
    Known,
    expected_refs,
    former_of,
    ours_of,
    owns_something,
    path_of,
    plan_finalizers,
    plan_releases,
    read_object,
    served_of,
    trimmed,
)
from controller.source.cluster.references import config_maps_of, refs_of
from controller.source.cluster.referred import Referred
from controller.source.cluster.store import ObjectStore, name_of, uid_of, version_of
from controller.source.cluster.watcher import Collection as Listed
from controller.source.cluster.watches import Trim, Watches
from controller.source.interface import Scan
from knative.contract.leader_state import Identity, LeaderState, Removal
from knative.resources.values import Broker, KafkaChannel, ResetOffset, Resource, Subscriber

log = structlog.get_logger(__name__)

_HINT = f"it is tried again; {ASK_DOCTOR}"
_HINT_ABSENT = "to use this kind, install its CRD from knative/manifests/crds"
OURS = ("KafkaChannel", "Subscription", "Broker", "Trigger", "ResetOffset")
WRITES_MAX = 8  #: at the same time


class ClusterSource:
    """The objects of one cluster, in all namespaces or in some."""

    def __init__(
        self,
        api: ApiServer,
        namespaces: Sequence[str],
        subscriptions: str,
        crashed: Callable[[BaseException], None],
        may_write: Callable[[], bool],
    ) -> None:
        """`namespaces`: () = all. `subscriptions`: core, own or auto. `may_write`: whether this process has the
        Lease, asked before each write."""
        self._api = api
        self._namespaces = tuple(namespaces) or ("",)
        self._mode = subscriptions
        self._core = subscriptions == "core"
        self._may_write = may_write
        self._changed: Callable[[], None] = lambda: None
        self._watches = Watches(api, self._on_change, crashed)
        self._referred = Referred(api, self._watches, self._namespaces)
        self._known: dict[str, Known] = {}
        self._ours: list[Known] = []
        self._former: list[Known] = []
        self._released: frozenset[str] = frozenset()
        self._entries_seen: set[str] = set()
        self._refused: dict[str, str] = {}
        self._vanished: Mapping[str, float] = {}
        self.foreign: frozenset[str] = frozenset()

    @property
    def released(self) -> frozenset[str]:
        """See `controller.source.interface`."""
        return self._released

    # -- life

    async def start(self, changed: Callable[[], None]) -> None:
        """Start the watchers; `api` is open."""
        self._changed = changed
        self._watches.need(self._wanted())

    async def stop(self) -> None:
        """Stop all watchers."""
        await self._watches.stop()

    def _on_change(self) -> None:
        self._changed()

    # -- reading

    def _lists(self, kind: str) -> list[Listed]:
        return [Listed(path_of(kind, namespace)) for namespace in self._namespaces]

    def _stores(self, kind: str) -> list[ObjectStore]:
        return self._watches.stores(self._lists(kind))

    def _wanted(self) -> dict[Listed, Trim]:
        return {one: trimmed(kind) for kind in OURS for one in self._lists(kind)}

    async def scan(self) -> Scan:
        """What the stores hold now; nothing as long as it is not known whose the Subscriptions are."""
        await self._find_core()
        known: dict[str, Known] = {}
        # All of one moment, and whether it was complete: objects may come and go while they are read.
        synced = self._synced()
        stores = [store for kind in OURS for store in self._stores(kind)] if self._mode != "auto" else []
        for raw in [raw for store in stores for raw in store.objects.values()]:
            uid = uid_of(raw)
            before = self._known.get(uid)
            if before is not None and before.raw is raw:
                known[uid] = before
            else:
                known[uid] = read_object(raw)
                await asyncio.sleep(0)  # large filters take 0.2 s
        self._known = known
        self._ours = ours_of(known.values(), core=self._core)
        self._former = former_of(known.values(), core=self._core)
        resources = [one.resource for one in known.values() if one.resource is not None]
        self._entries_seen.update(
            entry.uid for one in resources if isinstance(one, KafkaChannel) for entry in one.subscribers
        )
        await self._referred.need(refs_of(resources), config_maps_of(resources), self._wanted())
        facts = (frozenset(one.facts for one in known.values()), self._referred.facts(), self._mode)
        return Scan(facts, self._problems(), synced and self._synced())

    async def _find_core(self) -> None:
        """For `auto`: look once whether Knative's core is there. Without an answer nothing is decided."""
        if self._mode != "auto":
            return
        try:
            listed: Mapping[str, object] | None = await self._api.get(CORE_PATH)
        except ApiError as problem:
            if problem.status != NOT_FOUND:
                return  # the watchers say what is wrong with the API server
            listed = None
        found = find_mode(listed)
        self._mode, self._core = found.value, found.value == "core"
        log.info(found.why, subscriptions=found.value, means=MEANS[found.value])

    def _synced(self) -> bool:
        stores = [store for kind in OURS for store in self._stores(kind)]
        return (
            self._mode != "auto" and bool(stores) and all(store.synced for store in stores) and self._referred.synced()
        )

    def _problems(self) -> tuple[FileProblem, ...]:
        ours = [one for kind in OURS for one in self._lists(kind)]
        absent = self._watches.absent().intersection(ours)
        # Without Brokers, say, the other kinds are served in full; without any, the cluster is not prepared.
        unused = absent if len(absent) < len(ours) else frozenset()
        return tuple(
            FileProblem(f"cluster {one}", 0, "", why, _HINT_ABSENT if one in absent else _HINT, ignored=one in unused)
            for one, why in sorted(self._watches.problems(), key=str)
        )

    # -- for the decision

    def begin(self, state: LeaderState) -> None:
        """Begin a term."""
        self.foreign, self._released, self._vanished = frozenset(), frozenset(), {}

    def find_foreign(
        self, published: Iterable[Record], removing: Collection[str], asked: Collection[str]
    ) -> tuple[FileProblem, ...]:
        """See `keeping`."""
        records = {one.uid: one for one in published if one.uid not in removing}
        found = keeping.keep(self._view(), records, self._released)
        self._released |= keeping.releasable(found.foreign & frozenset(asked), records)
        found = keeping.keep(self._view(), records, self._released)
        self.foreign = found.foreign
        return keeping.foreign_problem(found.foreign, records, self._api.host)

    def _view(self) -> keeping.View:
        alive = {one.uid for one in self._served()}
        entries = self._listed()
        stores = [store for kind in OURS for store in self._stores(kind)]
        gone = {uid for store in stores for uid in store.deleted}
        absent = self._watches.absent()
        return keeping.View(
            synced=self._synced(),
            alive=frozenset(alive | entries),
            present=frozenset(one.uid for one in self._ours if not one.deleting),
            deleted=frozenset(gone | {one.uid for one in (*self._ours, *self._former) if one.deleting}),
            entries_seen=frozenset(self._entries_seen),
            core=self._core,
            former=frozenset(one.uid for one in self._former if not one.deleting),
            lists=frozenset(
                (kind, namespace)
                for kind in OURS
                for namespace in self._namespaces
                if Listed(path_of(kind, namespace)) not in absent
            ),
        )

    def _served(self) -> list[Known]:
        return [
            one
            for one in self._ours
            if one.resource is not None
            and not one.deleting
            and (one.finalized or isinstance(one.resource, ResetOffset))
        ]

    def _listed(self) -> frozenset[str]:
        return frozenset(entry.uid for one in self._served() for entry in _entries(one.resource))

    def objects(self, published: Iterable[Record], retracted: Collection[str]) -> tuple[AnyObject, ...]:
        """Those that may be acted on, and ConfigMaps."""
        served = [self._without_ghosts(one).as_object() for one in self._served()]
        # Brokers of other classes are not served, but their Triggers must not be taken for ours.
        others = [
            one.as_object()
            for one in self._known.values()
            if isinstance(one.resource, Broker) and not owns_something(one.resource) and not one.finalized
        ]
        return (*served, *others, *(one.as_object() for one in self._referred.config_maps()))

    def _without_ghosts(self, known: Known) -> Known:
        """Knative's core may leave entries of deleted Subscriptions in a channel for ever."""
        if not self._core or not isinstance(known.resource, KafkaChannel):
            return known
        there = {one.uid for one in self._known.values() if one.kind == "Subscription"}
        ghosts = tuple(one for one in known.resource.subscribers if one.uid not in there)
        if not ghosts:
            return known
        served = tuple(one for one in known.resource.subscribers if one.uid in there)
        return replace(known, resource=replace(known.resource, subscribers=served, ghosts=ghosts))

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """See `keeping`."""
        records = {one.uid: one for one in published}
        if not complete:
            return frozenset(records) - {one.uid for one in objects}
        return keeping.keep(self._view(), records, self._released).retained

    def retained_creations(self, complete: bool, creations: Mapping[str, Removal]) -> frozenset[str]:
        """See `keeping`."""
        return keeping.keep_creations(self._view(), creations) if complete else frozenset(creations)

    def vanished(self, complete: bool, creations: Mapping[str, Removal], now: float) -> Mapping[str, float]:
        """See `keeping`. One that is there again, or that cannot be looked for now, has not vanished."""
        if not complete:
            return {}
        self._vanished = {uid: self._vanished.get(uid, now) for uid in keeping.vanished(self._view(), creations)}
        return self._vanished

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """None: the API server remembers the identities."""
        return {}

    def view(self) -> ClusterView | None:
        """Addresses of what destinations refer to, what a ResetOffset may refer to, and who resolves Subscriptions."""
        expected = expected_refs(self._known.values(), self._ours)
        return replace(self._referred.view(), expected=expected, core=self._core)

    def statuses(self) -> list[WriteStatus]:
        """Of objects that are not valid."""
        return [one.invalid_status for one in self._ours if one.resource is None]

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        """Of objects that are ours, also of those that are being deleted: they wait for Kafka with our finalizer.
        Not of a ResetOffset that is over: its status must stay, because nothing else may remember that."""
        found = (
            outage_status((one.kind, *name_of(one.raw)), one.uid, one.generation, one.raw.get("status") or {}, why)
            for one in served_of(self._ours, self._known.values())
            if (owns_something(one.resource) or (isinstance(one.resource, ResetOffset) and not one.resource.over))
            and one.uid not in said
        )
        return [status for status in found if status is not None]

    def live(self, kind: str, namespace: str, name: str) -> tuple[ObjectStore, Mapping[str, object]] | None:
        """The object as it was read last, and its store."""
        for store in self._stores(kind):
            raw = store.objects.get((namespace, name))
            if raw is not None:
                return store, raw
        return None

    # -- finalizers

    async def prepare(self) -> None:
        """Give our finalizer to what will have something in Kafka."""
        await self._carry_out([one for one in plan_finalizers(self._ours, frozenset(self._known)) if one.adds])
        await self.scan()

    async def release(self, in_kafka: frozenset[str]) -> None:
        """Take our finalizer from what is being deleted and has nothing in Kafka any more, and from what core has taken
        over. Forget what is gone."""
        for kind in OURS:
            for store in self._stores(kind):
                store.deleted &= in_kafka
        released = [one for one in plan_finalizers(self._ours, in_kafka) if not one.adds]
        await self._carry_out([*released, *plan_releases(self._former, self._listed(), in_kafka)])

    async def _carry_out(self, changes: Sequence[FinalizerChange]) -> None:
        limit = asyncio.Semaphore(WRITES_MAX)

        async def one_by_one(change: FinalizerChange) -> None:
            async with limit:
                await self._write(change)

        await asyncio.gather(*(one_by_one(change) for change in changes))

    async def _write(self, change: FinalizerChange) -> None:
        """The version goes along, so that nothing that others have changed meanwhile is overwritten."""
        known = change.known
        if not self._may_write():
            return
        namespace, name = name_of(known.raw)
        metadata = {
            "uid": known.uid,
            "resourceVersion": version_of(known.raw),
            "finalizers": list(change.finalizers) or None,
        }
        path = path_of(known.kind, namespace, name)
        try:
            answer = await self._api.request("PATCH", path, {}, {"metadata": metadata}, MERGE)
        except ApiError as problem:
            if problem.status not in (CONFLICT, NOT_FOUND) and self._refused.get(known.uid) != problem.why:
                self._refused[known.uid] = problem.why
                log.warning("a finalizer cannot be written; trying again", reason=str(problem))
            return
        self._refused.pop(known.uid, None)
        found = self.live(known.kind, namespace, name)
        if found is not None:
            found[0].put(answer)


def _entries(resource: Resource | None) -> Iterable[Subscriber]:
    return resource.subscribers if isinstance(resource, KafkaChannel) else ()
