"""The requests of commands to the API server of a cluster, and to the kubeconfig. Importing this takes a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from app.settings.load import Settings, load_settings
from controller.kube.api_server import ApiServer, Json, namespace_of
from controller.kube.errors import ApiError


@asynccontextmanager
async def api_server(settings: Settings, context: str = "") -> AsyncIterator[ApiServer]:
    """Yields the API server of the settings; `context` "" = their context. Raises UsageError for a kubeconfig that
    cannot be used."""
    api = ApiServer(settings.kubeconfig, context or settings.kube_context)
    try:
        await api.open()
        yield api
    finally:
        await api.close()


async def get_unless(statuses: Collection[int], api: ApiServer, path: str) -> Json | None:
    """Returns one object; None if the answer has one of these statuses. Raises ApiError."""
    try:
        return await api.get(path)
    except ApiError as problem:
        if problem.status in statuses:
            return None
        raise


def namespace_of_context(context: str) -> str:
    """Returns the namespace of a context of the kubeconfig. Asks no server, and runs no exec plugin. Raises UsageError
    if there is no such context."""
    return namespace_of(load_settings().kubeconfig, context)
