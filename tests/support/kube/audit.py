"""Compares what somebody may do by ClusterRoles with what they did by the audit log of the API server.

    rules of ClusterRoles -> grants    audit log -> requests    ->  refused, and granted but never used

Pure but for `AuditLog`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: One line for each request, without bodies. The time of a watch does not matter, so it is logged when it begins.
_RULES = {"omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **_RULES}


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource: `apps`, `deployments/status`, `get`. `name` "" = of any name."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {where}" + (f" named {self.name}" if self.name else "")

    def covers(self, request: Request) -> bool:
        """Returns whether this allows the request. Lists and watches of one name count as requests of that name."""
        return (
            self.group in ("*", request.group)
            and self.resource in ("*", request.resource)
            and self.verb in ("*", request.verb)
            and self.name in ("", request.name)
        )


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One request for a resource, as the audit log has it."""

    user: str
    verb: str
    group: str
    resource: str  #: with its subresource: `kafkachannels/status`
    namespace: str = ""
    name: str = ""
    allowed: bool = True

    def __str__(self) -> str:
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {where} {'/'.join(part for part in (self.namespace, self.name) if part)}".rstrip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """`refused`: requests that were forbidden. `unused`: grants that no request of the log needed."""

    refused: tuple[Request, ...]
    unused: tuple[Grant, ...]


class AuditLog:
    """The requests of an audit log that grows. Each look reads only what is new since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._requests: list[Request] = []

    def requests(self) -> list[Request]:
        """All requests for resources so far. A last line that is not complete yet is left for the next look."""
        if self._path.is_file():
            with self._path.open("rb") as log:
                log.seek(self._position)
                lines, _, _ = log.read().rpartition(b"\n")
            if lines:
                self._position += len(lines) + 1
                requests = (request_of(json.loads(line)) for line in lines.split(b"\n"))
                self._requests += [request for request in requests if request is not None]
        return list(self._requests)


def grants(roles: Iterable[Mapping[str, Any]]) -> frozenset[Grant]:
    """Everything that Roles and ClusterRoles allow on resources, verb by verb."""
    return frozenset(
        Grant(group, resource, verb, name)
        for role in roles
        for rule in role.get("rules") or ()
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule.get("verbs") or ()
        for name in rule.get("resourceNames") or ("",)
    )


def request_of(record: Mapping[str, Any]) -> Request | None:
    """A record of the log; None if it is not about a resource (`/readyz`, discovery)."""
    target = record.get("objectRef")
    if not target or not target.get("resource"):
        return None
    decision = (record.get("annotations") or {}).get("authorization.k8s.io/decision")
    subresource = target.get("subresource")
    return Request(
        user=record["user"]["username"],
        verb=record["verb"],
        group=target.get("apiGroup", ""),
        resource=target["resource"] + (f"/{subresource}" if subresource else ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        allowed=decision != "forbid",
    )


def compare(roles: Iterable[Mapping[str, Any]], requests: Iterable[Request], user: str) -> Comparison:
    """What `user` was refused, and what `roles` allow without need."""
    theirs = {request for request in requests if request.user == user}
    refused = tuple(sorted(request for request in theirs if not request.allowed))
    used = [request for request in theirs if request.allowed]
    unused = sorted(grant for grant in grants(roles) if not any(grant.covers(request) for request in used))
    return Comparison(refused, tuple(unused))


def service_account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"
