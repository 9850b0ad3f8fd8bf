"""What a role allows against what the audit log has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.audit import AuditLog, Comparison, Grant, Request, compare, grants, request_of

USER = "system:serviceaccount:penstock:controller"


def _role(*rules: dict[str, list[str]]) -> dict[str, Any]:
    return {"kind": "ClusterRole", "rules": list(rules)}


def _rule(resources: list[str], verbs: list[str], group: str = "", **more: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **more}


def _record(verb: str, resource: str, *, decision: str = "allow", user: str = USER, **target: str) -> dict[str, Any]:
    return {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "namespace": "test", **target},
        "annotations": {"authorization.k8s.io/decision": decision},
    }


def _compare(roles: list[dict[str, Any]], *records: dict[str, Any]) -> Comparison:
    requests = [request for record in records if (request := request_of(record)) is not None]
    return compare(roles, requests, USER)


def test_grants_are_every_verb_on_every_resource() -> None:
    role = _role(
        _rule(["services", "pods/log"], ["get", "watch"]), _rule(["leases"], ["update"], "coordination.k8s.io")
    )
    assert {str(grant) for grant in grants([role])} == {
        "get services",
        "watch services",
        "get pods/log",
        "watch pods/log",
        "update leases.coordination.k8s.io",
    }


def test_unused_is_what_no_request_needed() -> None:
    diff = _compare([_role(_rule(["services"], ["get", "list", "watch"]))], _record("list", "services"))
    assert [str(grant) for grant in diff.unused] == ["get services", "watch services"]
    assert diff.refused == ()


def test_refused_is_named_with_its_object() -> None:
    record = _record("delete", "kafkachannels", decision="forbid", apiGroup="messaging.knative.dev", name="orders")
    diff = _compare([_role(_rule(["services"], ["get"]))], record)
    assert [str(request) for request in diff.refused] == ["delete kafkachannels.messaging.knative.dev test/orders"]


def test_refused_request_does_not_use_a_grant() -> None:
    diff = _compare([_role(_rule(["services"], ["get"]))], _record("get", "services", decision="forbid"))
    assert [str(grant) for grant in diff.unused] == ["get services"]


def test_subresource_is_a_resource_of_its_own() -> None:
    role = _role(_rule(["kafkachannels", "kafkachannels/status"], ["patch"]))
    diff = _compare([role], _record("patch", "kafkachannels", subresource="status"))
    assert [str(grant) for grant in diff.unused] == ["patch kafkachannels"]


def test_requests_of_others_do_not_count() -> None:
    diff = _compare(
        [_role(_rule(["services"], ["get"]))],
        _record("get", "services", user="admin"),
        _record("list", "secrets", decision="forbid", user="system:serviceaccount:test:default"),
    )
    assert [str(grant) for grant in diff.unused] == ["get services"]
    assert diff.refused == ()


def test_grant_for_a_name_covers_that_name_only() -> None:
    role = _role(_rule(["leases"], ["update"], resourceNames=["controller", "other"]))
    diff = _compare([role], _record("update", "leases", name="controller"))
    assert [str(grant) for grant in diff.unused] == ["update leases named other"]


@pytest.mark.parametrize(
    ("grant", "covered"),
    [
        (Grant("", "services", "get"), True),
        (Grant("*", "*", "*"), True),
        (Grant("", "services", "list"), False),
        (Grant("apps", "services", "get"), False),
        (Grant("", "services", "get", "other"), False),
        (Grant("", "services", "get", "one"), True),
    ],
)
def test_grant_covers_the_requests_that_it_names(grant: Grant, covered: bool) -> None:
    assert grant.covers(Request(USER, "get", "", "services", "test", "one")) is covered


def test_discovery_is_no_request_for_a_resource() -> None:
    assert request_of({"verb": "get", "user": {"username": USER}, "requestURI": "/apis"}) is None


def test_log_is_read_up_to_its_last_complete_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    audit = AuditLog(log)
    assert audit.requests() == []
    lines = [json.dumps(_record("get", "services")), json.dumps(_record("list", "secrets"))]
    log.write_text(f"{lines[0]}\n{lines[1][:20]}")
    assert [request.verb for request in audit.requests()] == ["get"]
    log.write_text("".join(f"{line}\n" for line in lines))
    assert [request.verb for request in audit.requests()] == ["get", "list"]
