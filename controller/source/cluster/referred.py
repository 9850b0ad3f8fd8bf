"""The objects that ours refer to: Services, other Addressables, ConfigMaps of Brokers. Only what is needed is watched.

The kind of a ref is looked up in the discovery API, so any Addressable will do that the server has and our role may
read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from controller.kube.api_server import ApiServer
from controller.kube.errors import NOT_FOUND, ApiError
from controller.plan.actions import ClusterView
from controller.source.cluster.objects import ClusterObject, path_of, read_object, trim_config_map
from controller.source.cluster.references import (
    SERVICE,
    SERVICE_KIND,
    ApiKind,
    address_of,
    config_maps_of,
    find_kind,
    group_path,
    refs_of,
    trim_addressable,
)
from controller.source.cluster.store import Name, Raw
from controller.source.cluster.watcher import Collection
from controller.source.cluster.watches import Trim, Watches
from controller.timing import ABSENT_S
from knative.delivery.policy import Addressable
from knative.resources.destination import Ref
from knative.resources.values import Resource

CONFIG_MAP = ("v1", "ConfigMap")
CONFIG_MAP_PAGE = 50  #: each may have a megabyte, of which little is kept

KindOfRef = tuple[str, str]  #: (apiVersion, kind)

T = TypeVar("T")
_NOTHING: tuple[frozenset[Ref], frozenset[Name]] = frozenset(), frozenset()
_ABSENT = object()


class Referred:
    """What is referred to. Event loop only."""

    def __init__(self, api: ApiServer, watches: Watches, namespaces: Sequence[str]) -> None:
        self._api = api
        self._watches = watches
        self._namespaces = namespaces
        self._kinds: dict[KindOfRef, ApiKind] = {SERVICE: SERVICE_KIND}
        self._unknown: dict[KindOfRef, tuple[str, float]] = {}  #: why, and when it was looked up
        self._needs: dict[str, tuple[frozenset[Ref], frozenset[Name]]] = {}  #: by our object's uid: refs, ConfigMaps
        self._by_ref: dict[Ref, set[str]] = {}  #: uids of those that need it
        self._by_map: dict[Name, set[str]] = {}
        self._of_kind: Counter[KindOfRef] = Counter()  #: how many refs
        self._addresses: dict[Ref, Addressable | None] = {}
        self._maps: dict[Name, ClusterObject] = {}
        self._seen: tuple[object, ...] = ()

    def use(self, uid: str, resource: Resource | None) -> None:
        """Take what one of our objects refers to now; None = it is not there."""
        needs = (refs_of([resource]), config_maps_of([resource])) if resource is not None else _NOTHING
        before = self._needs.pop(uid, _NOTHING)
        if needs != _NOTHING:
            self._needs[uid] = needs
        for ref in before[0] - needs[0]:
            if _drop(self._by_ref, ref, uid):
                self._of_kind[ref.api_version, ref.kind] -= 1
                self._addresses.pop(ref, None)
        for ref in needs[0] - before[0]:
            if ref not in self._by_ref:
                self._of_kind[ref.api_version, ref.kind] += 1
                self._look_at(ref)
            self._by_ref.setdefault(ref, set()).add(uid)
        for name in before[1] - needs[1]:
            if _drop(self._by_map, name, uid):
                self._maps.pop(name, None)  # its news are not followed any more
        for name in needs[1] - before[1]:
            self._by_map.setdefault(name, set()).add(uid)

    async def need(self, ours: Mapping[Collection, Trim]) -> None:
        """Watch what is needed, and `ours`, and nothing else."""
        await self._look_up({key for key, count in self._of_kind.items() if count})
        collections: dict[Collection, Trim] = dict(ours)
        for kind in self._used():
            collections.update(
                (collection, trim_addressable) for collection in self._lists(kind) if collection not in collections
            )
        collections.update((config_map_list, trim_config_map) for config_map_list in self._config_map_lists())
        self._watches.need(collections)

    def news(self) -> set[str]:
        """Returns the uids of our objects and of ConfigMaps for which something has changed since the last call."""
        uids: set[str] = set()
        refused = self.refused()
        seen = (frozenset(self._unknown.items()), self._loading(), frozenset(refused.items()), frozenset(self._kinds))
        everything = seen != self._seen
        self._seen = seen
        for ref in self._changed_refs(everything=everything):
            before = self._addresses.get(ref, _ABSENT)
            self._look_at(ref)
            if everything or self._addresses.get(ref, _ABSENT) != before:
                uids |= self._by_ref[ref]
        for name in self._changed_maps(everything=everything):
            before_map, raw = self._maps.pop(name, None), self._raw_map(name)
            config_map = None if raw is None else read_object(raw)
            if config_map is not None and config_map.resource is not None:
                self._maps[name] = config_map
            uids_of_map = {map_.uid for map_ in (before_map, config_map) if map_ is not None}
            if uids_of_map or everything:
                uids |= uids_of_map | self._by_map[name]
        return uids

    def _changed_refs(self, *, everything: bool) -> list[Ref]:
        changed: list[Ref] = []
        for kind in self._used():
            for listed in self._lists(kind):
                for store in self._watches.stores([listed]):
                    refs = (Ref(kind.api_version, kind.kind, *name) for name in store.take_news())
                    changed += [ref for ref in refs if ref in self._by_ref]
            if not kind.namespaced:  # such a ref may have a namespace all the same
                key = kind.api_version, kind.kind
                changed += [ref for ref in self._by_ref if (ref.api_version, ref.kind) == key]
        return list(self._by_ref) if everything else changed

    def _changed_maps(self, *, everything: bool) -> set[Name]:
        changed = {
            name for store in self._watches.stores(self._config_map_lists()) for name in store.take_news()
        } & self._by_map.keys()
        return set(self._by_map) if everything else changed | {name for name in self._by_map if name not in self._maps}

    def _raw_map(self, name: Name) -> Raw | None:
        stores = self._watches.stores([self._config_map_list(name[0])])
        return next((store.objects[name] for store in stores if name in store.objects), None)

    def _look_at(self, ref: Ref) -> None:
        """Find the address of a ref."""
        self._addresses.pop(ref, None)
        kind = self._kinds.get((ref.api_version, ref.kind))
        if kind is None:
            return
        name = (ref.namespace if kind.namespaced else "", ref.name)
        for store in self._watches.stores(self._lists(kind)):
            raw = store.objects.get(name)
            if raw is not None:
                self._addresses[ref] = address_of(raw)

    def _used(self) -> list[ApiKind]:
        return [kind for key, kind in self._kinds.items() if self._of_kind[key]]

    def _lists(self, kind: ApiKind) -> list[Collection]:
        return [Collection(kind.path(namespace)) for namespace in self._namespaces]

    async def _look_up(self, kinds: set[KindOfRef]) -> None:
        now = time.monotonic()
        for key in sorted(kinds - self._kinds.keys()):
            if key in self._unknown and now - self._unknown[key][1] < ABSENT_S:
                continue
            api_version, kind = key
            try:
                api_kind = find_kind(await self._api.get(group_path(api_version)), api_version, kind)
            except ApiError as problem:
                if problem.status != NOT_FOUND:
                    self._unknown[key] = (f"{kind} of {api_version} cannot be looked up now: {problem.why}", now)
                    continue
                api_kind = None
            if api_kind is None:
                self._unknown[key] = (f"the cluster has no kind {kind} of {api_version or 'no apiVersion'}", now)
            else:
                self._kinds[key] = api_kind
                self._unknown.pop(key, None)

    def synced(self) -> bool:
        """Returns whether all that is needed was read once. What cannot be read does not hold up the rest."""
        lists = [collection for kind in self._used() for collection in self._lists(kind)]
        lists += self._config_map_lists()
        waiting = {str(collection) for collection, *_ in self._watches.problems()}
        stores = [(collection, store) for collection in lists for store in self._watches.stores([collection])]
        return all(store.synced or str(collection) in waiting for collection, store in stores)

    def config_maps(self) -> list[ClusterObject]:
        """Returns the ConfigMaps that Brokers name and that are there."""
        return [self._maps[name] for name in sorted(self._maps.keys() & self._by_map.keys())]

    def config_map(self, uid: str) -> ClusterObject | None:
        """Returns the ConfigMap with this uid, if a Broker names it."""
        return next((config_map for config_map in self.config_maps() if config_map.uid == uid), None)

    def view(self) -> ClusterView:
        """Returns the addresses of all refs whose objects are there."""
        unknown = {key: why for key, (why, _) in self._unknown.items() if key not in self._kinds}
        return ClusterView(self._addresses, unknown, self._loading(), self.refused())

    def _loading(self) -> frozenset[KindOfRef]:
        loading = {
            (kind.api_version, kind.kind)
            for kind in self._used()
            if not all(store.synced for store in self._watches.stores(self._lists(kind)))
        }
        if not all(store.synced for store in self._watches.stores(self._config_map_lists())):
            loading.add(CONFIG_MAP)
        return frozenset(loading)

    def refused(self) -> dict[tuple[str, str, str], str]:
        """Returns why lists are refused that are needed, by apiVersion, kind and namespace."""
        forbidden = self._watches.forbidden()
        if not forbidden:
            return {}
        lists = {
            listed: (kind.api_version, kind.kind, kind.resource)
            for kind in self._used()
            for listed in self._lists(kind)
        }
        lists |= dict.fromkeys(self._config_map_lists(), (*CONFIG_MAP, "configmaps"))
        refusals = {}
        for listed, (api_version, kind, resource) in lists.items():
            if listed in forbidden:
                _, _, rest = listed.path.partition("/namespaces/")
                namespace = rest.partition("/")[0]
                where = f"namespace {namespace}" if namespace else "all namespaces"
                cure = f"grant the verbs list and watch on {resource} in {where} to the controller"
                refusals[api_version, kind, namespace] = f"{forbidden[listed]}; {cure}"
        return refusals

    def _config_map_list(self, namespace: str) -> Collection:
        """Returns where the ConfigMaps of this namespace are: many Brokers share one watch."""
        return Collection(path_of("ConfigMap", namespace if any(self._namespaces) else ""), CONFIG_MAP_PAGE)

    def _config_map_lists(self) -> list[Collection]:
        return sorted({self._config_map_list(namespace) for namespace, _ in self._by_map}, key=str)


def _drop(by: dict[T, set[str]], key: T, uid: str) -> bool:
    """Returns whether nothing needs it any more."""
    by[key].discard(uid)
    if by[key]:
        return False
    del by[key]
    return True
