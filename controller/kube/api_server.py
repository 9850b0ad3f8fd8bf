"""Requests to the API server, each with a limit: the one place in Penstock that talks to it. JSON in, JSON out.

    the Lease -> one connection     writes -> a few     lists -> a few     watches -> one each, as many as there are

No kind of request waits for a connection that another kind has. The configuration is that of `kubectl`: a kubeconfig
and its context, or the ServiceAccount of the pod. Raises ApiError.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
import structlog
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from controller.kube.errors import ApiError, StreamCut, retry_after_s
from controller.kube.kubeconfig import check_kubeconfig, not_valid
from controller.timing import CONNECT_S, CREDENTIALS_S, LEASE_REQUEST_S, REQUEST_S
from knative.errors import UsageError

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

FIELD_MANAGER = "penstock"
DEFAULT_NAMESPACE = "default"
AT_ONCE = 8  #: the most writes that are under way at the same time, and the most lists
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: What the client library raises for a configuration that is not valid.
_CONFIGURATION = (kube_config.ConfigException, OSError, LookupError, TypeError, ValueError, AttributeError)
_NETWORK = (aiohttp.ClientError, OSError, TimeoutError, asyncio.TimeoutError)

log = structlog.get_logger(__name__)

T = TypeVar("T")
Json = dict[str, Any]
Params = Mapping[str, str | int]


async def in_turns(write: Callable[[T], Awaitable[None]], rows: Iterable[T]) -> None:
    """Write these rows, AT_ONCE of them at the same time. `write` begins when its row has its turn, so what it looks at
    before its request is as it is then."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def in_turn(row: T) -> None:
        async with limit:
            await write(row)

    await asyncio.gather(*(in_turn(row) for row in rows))


class Connections:
    """Connections of their own for one kind of request. Event loop only."""

    def __init__(self, at_once: int, limit_s: float) -> None:
        """`at_once`: how many; 0 = as many as are needed. `limit_s`: of one request, from when it has a connection."""
        self._at_once = at_once
        self._limit_s = limit_s
        self._turns = asyncio.Semaphore(at_once) if at_once else None
        self._settings: Configuration | None = None
        self._client: ApiClient | None = None

    def use(self, settings: Configuration) -> None:
        """Set what to connect to, and as whom; connects at the first request."""
        self._settings = settings

    async def close(self) -> None:
        """Close all."""
        if self._client is not None:
            await self._client.close()

    async def get(self, path: str, params: Params | None = None) -> Json:
        """Read one object or one page of a list."""
        return await self.request("GET", path, params)

    async def request(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Send one request; returns its answer."""
        return (await self.answer(method, path, params, body, content_type))[0]

    async def answer(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> tuple[Json, Mapping[str, str]]:
        """Do the same; returns the headers of the answer too."""
        what = f"{method} {path}"
        async with self._turns or nullcontext():
            try:
                async with asyncio.timeout(self._limit_s):
                    response = await self.send(method, path, params, body, content_type, self._limit_s)
                    data = await response.read()
            except _NETWORK as problem:
                raise _no_answer(what, problem) from problem
        if response.status >= 400:
            raise _refused(what, response, data)
        return _parsed(what, data), response.headers

    async def send(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        limit_s: float,
    ) -> aiohttp.ClientResponse:
        """Send one request, until its answer begins."""
        client = self._connected()
        headers = {"Accept": "application/json", "Content-Type": content_type}
        query = [(name, str(value)) for name, value in (params or {}).items()]
        verb, url, headers, sent, _ = await client.param_serialize(
            method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=CONNECT_S)
        answer = await client.call_api(verb, url, headers, sent, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response

    def _connected(self) -> ApiClient:
        if self._client is None:
            assert self._settings is not None, "open comes first"
            # The client reads it once. What it reads at each request, such as the token, all connections share.
            self._settings.connection_pool_maxsize = self._at_once
            self._client = ApiClient(configuration=self._settings)
        return self._client


class ApiServer:
    """One API server. `open` comes first. Event loop only."""

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        """`kubeconfig`: a path; "" = the one of `kubectl`, or the pod's ServiceAccount if there is none."""
        self._kubeconfig = kubeconfig
        self._context = context
        self.lease = Connections(1, LEASE_REQUEST_S)  #: for what must never wait for anything else
        self._writes, self._lists = (Connections(AT_ONCE, REQUEST_S) for _ in range(2))
        self._watches = Connections(0, REQUEST_S)
        self._tokens: asyncio.Task[None] | None = None
        self.host = ""
        self.namespace = DEFAULT_NAMESPACE  #: of the pod or of the context

    @property
    def _all(self) -> tuple[Connections, ...]:
        return self.lease, self._writes, self._lists, self._watches

    async def open(self) -> None:
        """Read the configuration; asks nothing of the server. Raises UsageError."""
        settings = Configuration()
        path = self._kubeconfig or _default_kubeconfig()
        pods = await asyncio.to_thread(_pods_namespace) if not path and not self._context else None
        paths = path or str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
        if not pods:
            await asyncio.to_thread(check_kubeconfig, paths, self._context)
        try:
            if pods:
                kube_config.load_incluster_config(client_configuration=settings)
                self.namespace = pods
            else:
                async with asyncio.timeout(CREDENTIALS_S):
                    loader = await kube_config.load_kube_config(
                        config_file=path,
                        context=self._context or None,
                        client_configuration=settings,
                        persist_config=False,
                    )
                self.namespace = loader.current_context["context"].get("namespace") or self.namespace
                self._tokens = asyncio.create_task(_refresh(loader, settings), name="kubeconfig-token")
        except TimeoutError as problem:
            raise UsageError(
                f"The kubeconfig's exec plugin gave no credentials within {CREDENTIALS_S:g} s.",
                "Check that `kubectl version` works. The plugin may be waiting for a login.",
            ) from problem
        except _CONFIGURATION as problem:
            raise not_valid(paths, problem) from problem
        self.host = settings.host
        for connections in self._all:
            connections.use(settings)

    async def close(self) -> None:
        """Close all connections."""
        if self._tokens is not None:
            self._tokens.cancel()
        for connections in self._all:
            await connections.close()

    async def get(self, path: str, params: Params | None = None) -> Json:
        """Read one object or one page of a list."""
        return await self._lists.get(path, params)

    async def request(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """Send one write; returns its answer."""
        return await self._writes.request(method, path, params, body, content_type)

    async def version(self) -> tuple[str, float | None]:
        """Returns the version of the server, and what time it is there in Unix seconds; None = it does not say."""
        body, headers = await self._lists.answer("GET", "/version")
        try:
            now_s = parsedate_to_datetime(headers.get("Date", "")).timestamp()
        except ValueError:
            return str(body.get("gitVersion", "")), None
        return str(body.get("gitVersion", "")), now_s

    async def watch(self, path: str, params: Params, seconds: int) -> AsyncGenerator[Json, None]:
        """Yields the events of a watch, which the server ends after `seconds`. A stream that goes on for longer is half
        open: nothing is at its other end. It raises StreamCut, and so does one whose last event is not whole."""
        what = f"watch of {path}"
        limit_s = seconds + CONNECT_S
        given = {**params, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        try:
            response = await self._watches.send("GET", path, given, None, "application/json", limit_s)
        except _NETWORK as problem:
            raise _no_answer(what, problem) from problem
        try:
            if response.status >= 400:
                raise _refused(what, response, await response.read())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _object(line)
            if rest:
                yield _object(rest)
        except _NETWORK as problem:
            raise StreamCut(what, _why(problem)) from problem
        except ValueError as problem:
            raise StreamCut(what, f"the watch returned an incomplete event: {problem}") from problem
        finally:
            response.close()


def namespace_of(kubeconfig: str, context: str) -> str:
    """Returns the namespace of a context. Reads the kubeconfig only, and so runs no exec plugin. Raises UsageError."""
    paths = kubeconfig or str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
    check_kubeconfig(paths, context)
    try:
        merged = KubeConfigMerger(paths).config
        loader = KubeConfigLoader(config_dict=merged, active_context=context or None, config_base_path=None)
        return str(loader.current_context["context"].get("namespace") or DEFAULT_NAMESPACE)
    except _CONFIGURATION as problem:
        raise not_valid(paths, problem) from problem


async def _refresh(loader: Any, settings: Configuration) -> None:
    """Renew what the kubeconfig's user is known by, such as the token of an exec plugin, before it expires."""
    while True:
        await asyncio.sleep(CREDENTIALS_S)
        try:
            async with asyncio.timeout(CREDENTIALS_S):
                await loader.load_and_set(settings)
        except (kube_config.ConfigException, OSError) as problem:
            reason = str(problem) or f"the exec plugin gave no credentials within {CREDENTIALS_S:g} s"
            log.warning("the credentials of the kubeconfig cannot be renewed", reason=reason)


def _default_kubeconfig() -> str | None:
    """Returns the kubeconfig of `kubectl`, or None. The client library has read KUBECONFIG when it was imported."""
    location = str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
    paths = [os.path.expanduser(path) for path in location.split(os.pathsep)]
    return location if any(os.path.exists(path) for path in paths) else None


def _pods_namespace() -> str | None:
    """Returns the namespace of this pod's ServiceAccount; None when not running in a pod."""
    try:
        return (_SERVICE_ACCOUNT / "namespace").read_text("utf-8").strip()
    except FileNotFoundError:
        return None


def _no_answer(what: str, problem: BaseException) -> ApiError:
    return ApiError(0, what, _why(problem))


def _why(problem: BaseException) -> str:
    return str(problem) or f"it did not answer ({type(problem).__name__})"


def _refused(what: str, response: aiohttp.ClientResponse, data: bytes) -> ApiError:
    why, reason = response.reason or "", ""
    try:
        body = orjson.loads(data)
        if isinstance(body, dict):
            why, reason = str(body.get("message") or why), str(body.get("reason") or "")
    except ValueError:
        why = data[:200].decode("utf-8", "replace").strip() or why  # a proxy's, or a server's that is starting
    return ApiError(response.status, what, why, retry_after_s(response.headers.get("Retry-After")), reason)


def _parsed(what: str, data: bytes) -> Json:
    try:
        return _object(data)
    except ValueError as problem:
        raise ApiError(0, what, f"the answer is not valid: {problem}") from problem


def _object(data: bytes) -> Json:
    """Raises ValueError."""
    value = orjson.loads(data)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value
