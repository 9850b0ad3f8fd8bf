"""Resources from a cluster: what its watchers know, as objects to be served.

    watchers -> stores -> table: objects with a state -> each question is a query
    what objects refer to -> further watchers (Services, ConfigMaps, any Addressable)

The API server gave the objects their uids and generations. Event loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from controller.kube.api_server import MERGE, ApiServer, in_turns
from controller.kube.errors import ASK_DOCTOR, CONFLICT, FORBIDDEN, NOT_FOUND, ApiError
from controller.model import PART_MAX, FileProblem, Key, Record, Trouble
from controller.plan.actions import AnyObject, ClusterView, WriteStatus
from controller.plan.deletion import removable
from controller.plan.outage import outage_status
from controller.source.cluster import keeping
from controller.source.cluster.event_types import EventTypes, Traffic
from controller.source.cluster.mode import CORE_PATH, MEANS, find_mode
from controller.source.cluster.objects import (
    ClusterObject,
    FinalizerChange,
    grant,
    owns_something,
    path_of,
    read_object,
    trimmed,
)
from controller.source.cluster.referred import Referred
from controller.source.cluster.services import ChannelServices
from controller.source.cluster.store import ObjectStore, Raw, uid_of, version_of
from controller.source.cluster.table import Refusal, State, Table
from controller.source.cluster.watcher import Collection as Listed
from controller.source.cluster.watches import Trim, Watches
from controller.source.interface import Scan
from knative import timefmt
from knative.contract.leader_state import Identity, LeaderState, Removal
from knative.resources.values import ResetOffset

log = structlog.get_logger(__name__)

_HINT = f"the controller tries again; {ASK_DOCTOR}"
_HINT_ABSENT = "to use this kind, install its CRD from knative/manifests/crds"
_GOING = (State.DELETING, State.FORMER, State.LEAVING)  #: they will lose our finalizer
KINDS = ("KafkaChannel", "Subscription", "Broker", "Trigger", "ResetOffset")


class ClusterSource:
    """The objects of one cluster, in all namespaces or in some."""

    def __init__(
        self,
        api: ApiServer,
        namespaces: Sequence[str],
        subscriptions: str,
        crashed: Callable[[BaseException], None],
        may_write: Callable[[], bool],
        channel_services: str = "",
        traffic: Traffic | None = None,
    ) -> None:
        """`namespaces`: () = all. `subscriptions`: core, own or auto. `may_write`: whether this process has the
        Lease, asked before each write. `channel_services`: see `services`; `traffic`: see `event_types`."""
        self._api = api
        self._namespaces = tuple(namespaces) or ("",)
        self._mode = subscriptions
        self._may_write = may_write
        self._changed: Callable[[], None] = lambda: None
        self._watches = Watches(api, self._on_change, crashed)
        self._referred = Referred(api, self._watches, self._namespaces)
        self._services = ChannelServices(api, self._watches, self._namespaces, channel_services, may_write)
        self._event_types = EventTypes(api, self._watches, self._namespaces, traffic, may_write)
        self._table = Table(core=subscriptions == "core")
        self.foreign: frozenset[str] = frozenset()
        self._dirty: set[str] = set()
        self._all = True  #: everything is dirty
        self._revision = 0  #: of what decisions depend on
        self._seen: frozenset[object] = frozenset()  #: lists that were refused

    @property
    def released(self) -> frozenset[str]:
        """See `controller.source.interface`."""
        return frozenset(uid for uid, row in self._table.rows.items() if row.released)

    # -- life

    polled = False

    async def start(self, changed: Callable[[], None]) -> None:
        """Start the watchers; `api` is open."""
        self._changed = changed
        self._watches.need(self._collections())

    async def stop(self) -> None:
        """Stop all watchers."""
        await self._event_types.stop()
        await self._watches.stop()

    def _on_change(self) -> None:
        self._changed()

    # -- reading

    def _lists(self, *kinds: str) -> dict[Listed, tuple[str, str]]:
        """Returns the lists of these kinds, with kind and namespace."""
        return {Listed(path_of(kind, namespace)): (kind, namespace) for kind in kinds for namespace in self._namespaces}

    def _stores(self, *kinds: str) -> list[ObjectStore]:
        return self._watches.stores(self._lists(*kinds))

    def _collections(self) -> dict[Listed, Trim]:
        ours = {listed: trimmed(kind) for listed, (kind, _) in self._lists(*KINDS).items()}
        return {**ours, **self._services.collections, **self._event_types.collections}

    async def scan(self) -> Scan:
        """Returns what the stores hold now; nothing as long as it is not known whose the Subscriptions are."""
        await self._find_core()
        table = self._table
        # All of one moment, and whether it was complete: objects may come and go while they are read.
        stores = {kind: self._stores(kind) for kind in KINDS} if self._mode != "auto" else {}
        every = [store for of_kind in stores.values() for store in of_kind]
        synced = bool(every) and all(store.synced for store in every)
        raws, away = self._take_news(stores)
        gone = {uid for store in every for uid in store.deleted}
        read: dict[str, ClusterObject] = {}
        for raw in filter(table.is_new, raws):
            read[uid_of(raw)] = read_object(raw)
            await asyncio.sleep(0)  # large filters take 0.2 s
        changed = table.update([raw for raw in raws if table.is_new(raw)], away, gone, read)
        absent = self._watches.absent()
        table.lists = frozenset(where for listed, where in self._lists(*KINDS).items() if listed not in absent)
        for uid in {*read, *away}:
            row = table.rows.get(uid)
            object_ = row.object if row is not None else None
            self._referred.use(uid, object_.resource if object_ is not None else None)
            self._services.use(uid, object_ if object_ is not None and table.is_served_channel(object_) else None)
        await self._event_types.follow()
        await self._referred.need(self._collections())
        changed |= self._referred.news()
        self._services.follow()
        table.synced = synced and self._referred.synced()
        refused = frozenset(self._refused())
        if refused != self._seen:
            self._seen, self._all = refused, True
        self._dirty |= changed
        self._revision += bool(changed)
        revision = (self._revision, self._mode, refused)
        return Scan(revision, self._problems(), table.synced, self._event_types.declared)

    def _take_news(self, stores: Mapping[str, Sequence[ObjectStore]]) -> tuple[list[Raw], set[str]]:
        """Returns the objects that have changed, and the uids of those that are not there any more."""
        raws, away = [], set()
        for kind, of_kind in stores.items():
            for store in of_kind:
                for name, others in store.take_news().items():
                    raw, before = store.objects.get(name), self._table.named((kind, *name))
                    if before is not None and (raw is None or uid_of(raw) != before):
                        away.add(before)
                    if raw is not None:
                        raws.append(raw)
                        if others:
                            self._dirty.add(uid_of(raw))
                            self._revision += 1
        return raws, away

    def take_dirty(self) -> frozenset[str] | None:
        """Returns the uids whose decisions may have changed since the last call; None = everything."""
        dirty, everything = frozenset(self._dirty), self._all
        self._dirty, self._all = set(), False
        return None if everything else dirty

    def object_of(self, uid: str) -> AnyObject | None:
        """Returns an object that may be acted on, or a ConfigMap that a Broker names."""
        object_ = self._table.object_of(uid)
        if object_ is None:
            config_map = self._referred.config_map(uid)
            object_ = config_map.as_object() if config_map is not None else None
        return object_

    @property
    def waits(self) -> bool:
        """Whether an object waits for our finalizer, or to lose it."""
        going = self._table.present(*_GOING)
        listed = any(owns_something(object_.resource) for object_ in self._table.present(State.LISTED))
        deleted = any(store.deleted for store in self._stores(*KINDS))
        own = self._services.waits or self._event_types.waits
        return bool(going or listed or self._table.unannotated() or deleted or own)

    async def _find_core(self) -> None:
        """With `auto`, look once whether Knative's core is there. Without an answer, nothing is decided."""
        if self._mode != "auto":
            return
        try:
            listed: Mapping[str, object] | None = await self._api.get(CORE_PATH)
        except ApiError as problem:
            if problem.status != NOT_FOUND:
                return  # the watchers say what is wrong with the API server
            listed = None
        mode = find_mode(listed)
        self._mode, self._table.core = mode.value, mode.value == "core"
        log.info(mode.why, subscriptions=mode.value, means=MEANS[mode.value])

    def _problems(self) -> tuple[FileProblem, ...]:
        ours = self._lists(*KINDS)
        absent = self._watches.absent().intersection(ours)
        # Without Brokers, say, the other kinds are served in full; without any, the cluster is not prepared.
        unused = absent if len(absent) < len(ours) else frozenset()
        return tuple(
            FileProblem(
                f"cluster {collection}",
                0,
                "",
                f"{why} (since {timefmt.in_seconds(since)})",
                _HINT_ABSENT if collection in absent else _HINT,
                ignored=collection in unused,
            )
            for collection, why, since in sorted(self._watches.problems(), key=str)
            if collection not in self._event_types.collections
        )

    # -- for the decision

    def begin(self, state: LeaderState) -> None:
        """Begin a term."""
        self.foreign = frozenset()
        for row in self._table.rows.values():
            row.released, row.missing_since = False, None

    def find_foreign(
        self, published: Iterable[Record], removing: Collection[str], asked: Collection[str]
    ) -> tuple[FileProblem, ...]:
        """See `keeping`."""
        records = {record.uid: record for record in published if record.uid not in removing}
        foreign = keeping.keep(self._table, records).foreign
        for uid in removable(foreign & frozenset(asked), records.values()):
            self._table.rows[uid].released = True
        self.foreign = keeping.keep(self._table, records).foreign
        return keeping.foreign_problem(self.foreign, records, self._api.host)

    def objects(self, published: Iterable[Record], retracted: Collection[str]) -> tuple[AnyObject, ...]:
        """Returns the objects that may be acted on, and ConfigMaps."""
        return (*self._table.objects(), *(config_map.as_object() for config_map in self._referred.config_maps()))

    def retained(self, complete: bool, published: Iterable[Record], objects: Iterable[AnyObject]) -> frozenset[str]:
        """See `keeping`."""
        records = {record.uid: record for record in published}
        if not complete:
            return frozenset(records) - {served.uid for served in objects}
        return keeping.keep(self._table, records).retained

    def retained_creations(self, complete: bool, creations: Mapping[str, Removal]) -> frozenset[str]:
        """See `keeping`."""
        return keeping.keep_creations(self._table, creations) if complete else frozenset(creations)

    def vanished(self, complete: bool, creations: Mapping[str, Removal], now: float) -> Mapping[str, float]:
        """See `keeping`. One that is there again, or that cannot be looked for now, has not vanished."""
        if not complete:
            return {}
        return self._table.missing(keeping.vanished(self._table, creations), now)

    def unpublished(self, published: Iterable[Record]) -> Mapping[Key, Identity]:
        """Returns no identities: the API server remembers them."""
        return {}

    def view(self, *, whole: bool = True) -> ClusterView | None:
        """Returns the addresses for destinations, what a ResetOffset may refer to, and who resolves Subscriptions."""
        view = self._referred.view()
        expected = self._table.expected() if whole else frozenset[Key]()
        return replace(
            view,
            expected=expected,
            core=self._table.core,
            refused={**view.refused, **self._refused()},
            services=self._services.problems,
        )

    def _refused(self) -> dict[tuple[str, str, str], str]:
        """Returns why lists of our kinds are refused."""
        forbidden, lists = self._watches.forbidden(), self._lists(*KINDS)
        return {
            ("", kind, namespace): f"{forbidden[listed]}; {grant('list and watch', kind)}"
            for listed, (kind, namespace) in lists.items()
            if listed in forbidden
        }

    def statuses(self) -> list[WriteStatus]:
        """Returns statuses of objects that are not valid, may not have our finalizer, or whose class nobody serves."""
        ours = self._table.present(State.INVALID, State.DELETING)
        invalid = [object_.invalid_status for object_ in ours if object_.resource is None]
        return [*invalid, *self._table.refused(), *self._table.namespaced()]

    def troubles(self) -> list[Trouble]:
        """Returns lists that are not read, and finalizers that are refused."""
        unsettled = self._table.present(State.LISTED, *_GOING)
        refused = [(object_, self._table.rows[object_.uid].refused) for object_ in unsettled]
        return [
            *self._watches.troubles(self._lists(*KINDS), self._event_types.collections),
            *(Trouble("finalizer", str(object_), why.since, why.why) for object_, why in refused if why is not None),
            *self._services.troubles(),
        ]

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        """Returns the statuses of our objects, even of those that are being deleted: they wait for Kafka with our
        finalizer. A ResetOffset that is over has none here: its status must stay, because it may be the only record of
        the result."""
        ours = (object_ for object_ in self._table.written() if object_.uid not in said)
        statuses = (
            outage_status(object_.key, object_.uid, object_.generation, object_.raw.get("status") or {}, why)
            for object_ in ours
            if owns_something(object_.resource)
            or (isinstance(object_.resource, ResetOffset) and not object_.resource.over)
        )
        return [status for status in statuses if status is not None]

    def live(self, kind: str, namespace: str, name: str) -> tuple[ObjectStore, Mapping[str, object]] | None:
        """Returns the object as it was read last, and its store."""
        for store in self._stores(kind):
            raw = store.objects.get((namespace, name))
            if raw is not None:
                return store, raw
        return None

    # -- finalizers

    async def prepare(self) -> bool:
        """Give our finalizer to what will have something in Kafka, to a part of it if there is much, and Services to
        channels."""
        changes = self._table.adoptions()
        await in_turns(self._write, changes[:PART_MAX])
        await self.scan()
        more = await self._event_types.write(self._table.ours)
        changed, more_services = await self._services.write()
        if changed or more or more_services:
            self._dirty |= changed
            self._revision += 1
            self._changed()
        return any(self._table.rows[change.object.uid].refused is None for change in changes[PART_MAX:])

    async def release(self, in_kafka: frozenset[str]) -> None:
        """Take our finalizer from what is being deleted and has nothing in Kafka any more, and from what core has taken
        over. Forget what is gone."""
        for store in self._stores(*KINDS):
            store.deleted &= in_kafka
        await in_turns(self._write, self._table.releases(in_kafka))

    async def _write(self, change: FinalizerChange) -> None:
        """The version goes along, so that nothing that others have changed meanwhile is overwritten."""
        object_ = change.object
        row = self._table.rows[object_.uid]
        if not self._may_write():
            return
        metadata = {
            "uid": object_.uid,
            "resourceVersion": version_of(object_.raw),
            "finalizers": list(change.finalizers) or None,
            **({"annotations": change.annotations} if change.annotations else {}),
        }
        path = path_of(*object_.key)
        try:
            answer = await self._api.request("PATCH", path, {}, {"metadata": metadata}, MERGE)
        except ApiError as problem:
            before = row.refused
            if problem.status not in (CONFLICT, NOT_FOUND) and (before is None or before.why != problem.why):
                since = before.since if before is not None else time.time()
                row.refused = Refusal(problem.why, since, problem.status == FORBIDDEN)
                log.warning("a finalizer cannot be written; the controller tries again", reason=str(problem))
            return
        row.refused = None
        match = self.live(*object_.key)
        if match is not None:
            match[0].put(answer)
