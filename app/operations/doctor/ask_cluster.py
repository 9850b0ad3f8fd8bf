"""Asks an API server for the facts. It only reads, and creates reviews of permissions, which change nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime

import yaml

from app.operations.doctor.cluster import ROLES, SERVICES_ROLE, Access, ClusterFacts, accesses
from app.operations.kube import api_server, get_unless
from app.settings.load import Settings
from controller.kube.api_server import ApiServer
from controller.kube.errors import FORBIDDEN, NOT_FOUND, ApiError
from controller.kube.lease import LeaseView, lease_path, read_lease
from controller.source.cluster.references import group_path
from knative.errors import PenstockError
from knative.resources.kinds import OURS

_UNREADABLE = (NOT_FOUND, FORBIDDEN)
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMESPACES = "/api/v1/namespaces"
_HINT = "check PENSTOCK_KUBECONFIG and PENSTOCK_KUBE_CONTEXT, or --context; `kubectl version` must answer too"


def ask_cluster(settings: Settings, context: str) -> ClusterFacts:
    """Returns all facts. Raises PenstockError for a server that does not answer, and a kubeconfig that is not valid."""
    try:
        return asyncio.run(_ask(settings, context))
    except ApiError as problem:
        raise PenstockError(f"it does not answer: {problem.what}", _HINT) from problem


async def _ask(settings: Settings, context: str) -> ClusterFacts:
    async with api_server(settings, context) as api:
        asked_s = time.time()
        version, there_s = await api.version()
        now_s = (asked_s + time.time()) / 2
        groups = sorted({f"{kind.group}/{version}" for kind in OURS for version in kind.versions})
        listed = {group: await get_unless(_UNREADABLE, api, group_path(group)) for group in groups}
        crds = {kind.name: await get_unless(_UNREADABLE, api, f"{_CRDS}/{kind.plural}.{kind.group}") for kind in OURS}
        permissions = needed(settings, api.namespace)
        path = lease_path(api.namespace, settings.instance)
        lease = await get_unless(_UNREADABLE, api, path)
        seen = None if lease is None else read_lease(lease)
        try:
            denied, unknown = await _denied(api, permissions), None
        except ApiError as problem:
            denied, unknown = [], str(problem)
        return ClusterFacts(
            host=api.host,
            version=version,
            mode=settings.subscriptions,
            # The server's time has no fractions: half a second is the best guess.
            ahead_s=None if there_s is None else there_s + 0.5 - now_s,
            served=listed,
            crds=crds,
            no_namespaces=[
                namespace
                for namespace in settings.namespaces or ()
                if await _is_absent(api, f"{_NAMESPACES}/{namespace}")
            ],
            user=await _user(api),
            denied=denied,
            asked=len(permissions),
            unknown=unknown,
            lease=seen,
            lease_name=f"{api.namespace}/{path.rpartition('/')[2]}",
            not_renewed_s=None if seen is None else _not_renewed_s(seen, there_s),
        )


def _not_renewed_s(lease: LeaseView, there_s: float | None) -> float | None:
    try:
        renewed_s = datetime.fromisoformat(lease.renewed).timestamp()
    except ValueError:
        return None
    return (there_s or time.time()) - renewed_s


async def _is_absent(api: ApiServer, path: str) -> bool:
    """Returns whether the server says so; False = it is there, or this user may not know."""
    try:
        await api.get(path)
    except ApiError as problem:
        if problem.status not in (NOT_FOUND, FORBIDDEN):
            raise
        return problem.status == NOT_FOUND
    return False


def needed(settings: Settings, own: str) -> list[tuple[Access, str]]:
    """Returns what the controller does with these settings, with the namespace; "" = in all. `own`: its own."""
    files = [ROLES, SERVICES_ROLE] if settings.channel_services else [ROLES]
    roles = [role for file in files for role in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    namespaces = settings.namespaces or ("",)
    return [(access, where) for access in accesses(roles) for where in ((own,) if access.own else namespaces)]


async def _denied(api: ApiServer, permissions: Sequence[tuple[Access, str]]) -> list[tuple[Access, str]]:
    limit = asyncio.Semaphore(8)

    async def allowed(access: Access, namespace: str) -> bool:
        async with limit:
            answer = await api.request("POST", _REVIEWS, None, access.review(namespace))
            return bool((answer.get("status") or {}).get("allowed"))

    answers = await asyncio.gather(*(allowed(*pair) for pair in permissions))
    return [pair for pair, yes in zip(permissions, answers, strict=True) if not yes]


async def _user(api: ApiServer) -> str | None:
    """Returns who asks; None = the server does not say (before Kubernetes 1.28)."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await api.request("POST", _WHO_AM_I, None, body)
    except ApiError:
        return None
    return ((answer.get("status") or {}).get("userInfo") or {}).get("username") or None
