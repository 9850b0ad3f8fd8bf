"""What commands ask of the API server of a cluster, or of the kubeconfig. Importing this takes a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.settings.load import Settings, load_settings
from controller.kube.api_server import ApiServer


@asynccontextmanager
async def api_server(settings: Settings, context: str = "") -> AsyncIterator[ApiServer]:
    """The API server of the settings; `context` "" = their context. Raises UsageError for a kubeconfig that cannot be
    used."""
    api = ApiServer(settings.kubeconfig, context or settings.kube_context)
    try:
        await api.open()
        yield api
    finally:
        await api.close()


def namespace_of_context(context: str) -> str:
    """The namespace of a context of the kubeconfig. Asks no server. Raises UsageError if there is no such context."""

    async def read() -> str:
        async with api_server(load_settings(), context) as api:
            return api.namespace

    return asyncio.run(read())
