"""The objects that ours refer to: Services, other Addressables, ConfigMaps of Brokers. Only what is needed is watched.

The kind of a ref is looked up in the discovery API, so any Addressable will do that the server has and our role may
read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from controller.kube.api_server import ApiServer
from controller.kube.errors import NOT_FOUND, ApiError
from controller.plan.actions import ClusterView
from controller.source.cluster.objects import Known, path_of, read_object, trim_config_map
from controller.source.cluster.references import (
    SERVICE,
    ApiKind,
    address_of,
    find_kind,
    group_path,
    trim_addressable,
)
from controller.source.cluster.store import metadata_of, version_of
from controller.source.cluster.watcher import Collection
from controller.source.cluster.watches import Trim, Watches
from controller.timing import ABSENT_S
from knative.delivery.policy import Addressable
from knative.resources.destination import Ref

CONFIG_MAP = ("v1", "ConfigMap")
CONFIG_MAP_PAGE = 50  #: each may have a megabyte, of which little is kept

KindOfRef = tuple[str, str]  #: (apiVersion, kind)

_SERVICE = ApiKind(*SERVICE, "services", namespaced=True)


class Referred:
    """What is referred to. Event loop only."""

    def __init__(self, api: ApiServer, watches: Watches, namespaces: Sequence[str]) -> None:
        self._api = api
        self._watches = watches
        self._namespaces = namespaces
        self._kinds: dict[KindOfRef, ApiKind] = {SERVICE: _SERVICE}
        self._unknown: dict[KindOfRef, tuple[str, float]] = {}  #: why, and when it was looked up
        self._refs: frozenset[Ref] = frozenset()
        self._config_maps: frozenset[tuple[str, str]] = frozenset()
        self._parsed: dict[tuple[str, str], Known] = {}

    async def need(
        self, refs: frozenset[Ref], config_maps: frozenset[tuple[str, str]], ours: Mapping[Collection, Trim]
    ) -> None:
        """Watch what these need, and `ours`, and nothing else."""
        self._refs, self._config_maps = refs, config_maps
        self._parsed = {name: known for name, known in self._parsed.items() if name in config_maps}
        await self._look_up({(ref.api_version, ref.kind) for ref in refs})
        wanted: dict[Collection, Trim] = dict(ours)
        for kind in self._used():
            wanted.update((one, trim_addressable) for one in self._lists(kind) if one not in wanted)
        wanted.update((one, trim_config_map) for one in self._config_map_lists())
        self._watches.need(wanted)

    def _used(self) -> list[ApiKind]:
        used = {(ref.api_version, ref.kind) for ref in self._refs}
        return [kind for key, kind in self._kinds.items() if key in used]

    def _lists(self, kind: ApiKind) -> list[Collection]:
        return [Collection(kind.path(namespace)) for namespace in self._namespaces]

    async def _look_up(self, kinds: set[KindOfRef]) -> None:
        now = time.monotonic()
        for key in sorted(kinds - self._kinds.keys()):
            if key in self._unknown and now - self._unknown[key][1] < ABSENT_S:
                continue
            api_version, kind = key
            try:
                found = find_kind(await self._api.get(group_path(api_version)), api_version, kind)
            except ApiError as problem:
                if problem.status != NOT_FOUND:
                    self._unknown[key] = (f"{kind} of {api_version} cannot be looked up now: {problem.why}", now)
                    continue
                found = None
            if found is None:
                self._unknown[key] = (f"the cluster has no kind {kind} of {api_version or 'no apiVersion'}", now)
            else:
                self._kinds[key] = found
                self._unknown.pop(key, None)

    def synced(self) -> bool:
        """Whether all that is needed was read once. What cannot be read does not hold up the rest."""
        lists = [one for kind in self._used() for one in self._lists(kind)]
        lists += self._config_map_lists()
        waiting = {str(one) for one, *_ in self._watches.problems()}
        stores = [(one, store) for one in lists for store in self._watches.stores([one])]
        return all(store.synced or str(one) in waiting for one, store in stores)

    def config_maps(self) -> list[Known]:
        """The ConfigMaps that Brokers name and that are there."""
        found = []
        for namespace, name in sorted(self._config_maps):
            for store in self._watches.stores([self._config_map_list(namespace)]):
                raw = store.objects.get((namespace, name))
                if raw is not None:
                    before = self._parsed.get((namespace, name))
                    known = before if before is not None and before.raw is raw else read_object(raw)
                    self._parsed[namespace, name] = known
                    found.append(known)
        return [one for one in found if one.resource is not None]

    def view(self) -> ClusterView:
        """The addresses of all refs whose objects are there."""
        addresses: dict[Ref, Addressable | None] = {}
        for ref in self._refs:
            kind = self._kinds.get((ref.api_version, ref.kind))
            if kind is None:
                continue
            name = (ref.namespace if kind.namespaced else "", ref.name)
            for store in self._watches.stores(self._lists(kind)):
                raw = store.objects.get(name)
                if raw is not None:
                    addresses[ref] = address_of(raw)
        unknown = {key: why for key, (why, _) in self._unknown.items() if key not in self._kinds}
        loading = frozenset(
            (kind.api_version, kind.kind)
            for kind in self._used()
            if not all(store.synced for store in self._watches.stores(self._lists(kind)))
        )
        maps = self._config_map_lists()
        if not all(store.synced for store in self._watches.stores(maps)):
            loading |= {CONFIG_MAP}
        return ClusterView(addresses, unknown, loading, self._refused())

    def _refused(self) -> dict[tuple[str, str, str], str]:
        """Why lists are refused that are needed, by apiVersion, kind and namespace."""
        forbidden = self._watches.forbidden()
        lists = {
            listed: (kind.api_version, kind.kind, kind.resource)
            for kind in self._used()
            for listed in self._lists(kind)
        }
        lists |= dict.fromkeys(self._config_map_lists(), (*CONFIG_MAP, "configmaps"))
        found = {}
        for listed, (api_version, kind, resource) in lists.items():
            if listed in forbidden:
                _, _, rest = listed.path.partition("/namespaces/")
                namespace = rest.partition("/")[0]
                where = f"namespace {namespace}" if namespace else "all namespaces"
                cure = f"grant the verbs list and watch on {resource} in {where} to the controller"
                found[api_version, kind, namespace] = f"{forbidden[listed]}; {cure}"
        return found

    def facts(self) -> tuple[object, ...]:
        """What decisions depend on."""
        view = self.view()
        maps = frozenset(
            (one.uid, version_of(one.raw), str(metadata_of(one.raw).get("name"))) for one in self.config_maps()
        )
        seen = frozenset(view.addresses.items()), frozenset(view.unknown.items()), view.loading
        return *seen, frozenset(view.refused.items()), maps

    def _config_map_list(self, namespace: str) -> Collection:
        """Where the ConfigMaps of this namespace are: many Brokers share one watch."""
        return Collection(path_of("ConfigMap", namespace if any(self._namespaces) else ""), CONFIG_MAP_PAGE)

    def _config_map_lists(self) -> list[Collection]:
        return sorted({self._config_map_list(namespace) for namespace, _ in self._config_maps}, key=str)
