"""Reads from an API server what can be exported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.operations.export.documents import KINDS, Export, LeftOut, config_maps_needed, export
from app.operations.kube import api_server, get_unless
from app.settings.load import Settings
from controller.kube.api_server import ApiServer, Json
from controller.kube.errors import FORBIDDEN, NOT_FOUND, ApiError
from controller.source.cluster.mode import CORE_PATH, has_core
from controller.source.cluster.objects import path_of
from controller.source.cluster.watcher import PAGE
from knative.errors import NotReadyError, PenstockError


def export_cluster(settings: Settings, context: str, namespaces: Sequence[str]) -> Export:
    """Returns everything in these namespaces; () = all. Raises NotReadyError if the API server does not answer,
    PenstockError if it refuses something."""
    try:
        return asyncio.run(_export(settings, context, tuple(namespaces) or ("",)))
    except ApiError as problem:
        if problem.status == 0:
            hint = "Check the kubeconfig and --context; `kubectl version` must answer too."
            raise NotReadyError(f"The API server does not answer: {problem.what}.", hint) from problem
        hint = "The user of the kubeconfig needs to list Penstock's kinds and to get ConfigMaps."
        raise PenstockError(f"{problem.what}.", hint if problem.status == FORBIDDEN else "") from problem


async def _export(settings: Settings, context: str, namespaces: Sequence[str]) -> Export:
    async with api_server(settings, context) as api:
        objects: dict[str, list[Json]] = {}
        for kind in set(KINDS) - {"ConfigMap"}:
            # The items of a list do not say what they are.
            listed = [raw for namespace in namespaces for raw in await _list(api, path_of(kind, namespace))]
            objects[kind] = [{**raw, "kind": kind} for raw in listed]
        core = settings.subscriptions == "core" or (settings.subscriptions == "auto" and await _has_core(api))
        missing = []
        objects["ConfigMap"] = []
        for namespace, name in sorted(config_maps_needed(objects["Broker"])):
            config_map = await get_unless((NOT_FOUND,), api, path_of("ConfigMap", namespace, name))
            if config_map is None:
                missing.append(LeftOut("ConfigMap", namespace, name, "a Broker refers to it, but it does not exist"))
            else:
                objects["ConfigMap"].append(config_map)
        done = export(objects, core=core)
        return Export(done.documents, (*missing, *done.left_out))


async def _list(api: ApiServer, path: str) -> list[Json]:
    """Returns all objects; none if the kind is not installed."""
    items: list[Json] = []
    more = ""
    while True:
        given: dict[str, str | int] = {"limit": PAGE, **({"continue": more} if more else {})}
        try:
            page = await api.get(path, given)
        except ApiError as problem:
            if problem.status == NOT_FOUND:
                return items
            raise
        items += page.get("items") or ()
        more = str((page.get("metadata") or {}).get("continue") or "")
        if not more:
            return items


async def _has_core(api: ApiServer) -> bool:
    return has_core(await get_unless((NOT_FOUND,), api, CORE_PATH))
