"""The roles in the manifests: exact verbs, nobody but the controller, and every kind that Knative looks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from knative.resources.kinds import OURS
from tests.support.kube.audit import grants
from tests.support.kube.kustomize import MANIFESTS
from tests.support.kube.manifests import NAMESPACE, WORKER, channel_services_role, controller_role, rbac

EVERY = [*rbac(), *channel_services_role()]
ROLES = [one for one in EVERY if one["kind"] in ("Role", "ClusterRole")]
BINDINGS = [one for one in EVERY if one["kind"].endswith("Binding")]


def _name(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


@pytest.mark.parametrize("role", ROLES, ids=_name)
def test_no_role_has_a_wildcard_or_secrets(role: dict[str, Any]) -> None:
    for grant in grants([role]):
        assert "*" not in (grant.group, grant.resource, grant.verb)
        assert not grant.resource.startswith("secrets")
        assert grant.verb not in ("escalate", "bind", "impersonate", "deletecollection")


def test_controller_may_not_create_or_delete_what_people_write() -> None:
    ours = {(kind.group, kind.plural) for kind in OURS}
    for grant in grants([controller_role("ClusterRole")]):
        if (grant.group, grant.resource.partition("/")[0]) in ours:
            assert grant.verb in ("list", "watch", "patch")


def test_without_the_setting_the_controller_may_write_no_service() -> None:
    """Who may create or change any Service can lead its senders elsewhere."""
    verbs = {grant.verb for grant in grants([controller_role("ClusterRole")]) if grant.resource == "services"}
    assert verbs == {"list", "watch"}
    added = {grant.verb for grant in grants(channel_services_role()) if grant.resource == "services"}
    assert added == {"create", "patch"}


@pytest.mark.parametrize(
    "file", sorted(MANIFESTS.glob("[co]*/*/kustomization.yaml")), ids=lambda file: file.parent.name
)
def test_the_role_for_services_is_where_the_setting_is(file: Path) -> None:
    text = file.read_text()
    has_role = re.search(r"^ +- \S*/channel-services-role\b", text, re.MULTILINE) is not None
    assert has_role is ("- PENSTOCK_CHANNEL_SERVICES=" in text)


def test_nothing_is_bound_to_workers() -> None:
    assert WORKER not in [subject["name"] for binding in BINDINGS for subject in binding["subjects"]]
    account = next(one for one in rbac() if one["kind"] == "ServiceAccount" and one["metadata"]["name"] == WORKER)
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("binding", BINDINGS, ids=_name)
def test_bindings_name_roles_and_accounts_that_are_there(binding: dict[str, Any]) -> None:
    ref = binding["roleRef"]
    assert (ref["kind"], ref["name"]) in [(role["kind"], role["metadata"]["name"]) for role in ROLES]
    accounts = [one["metadata"]["name"] for one in rbac() if one["kind"] == "ServiceAccount"]
    for subject in binding["subjects"]:
        assert subject["namespace"] == NAMESPACE
        assert subject["name"] in accounts


def test_duck_roles_have_all_that_knative_needs() -> None:
    def of(label: str) -> set[str]:
        found = [role for role in ROLES if role["metadata"]["labels"].get(f"duck.knative.dev/{label}") == "true"]
        return {str(grant) for grant in grants(found)}

    verbs = ("create", "get", "list", "watch", "update", "patch", "delete")
    where = ("kafkachannels.messaging.knative.dev", "kafkachannels/status.messaging.knative.dev")
    assert of("channelable") == {f"{verb} {resource}" for verb in verbs for resource in where}
    addressable = [kind for kind in OURS if kind.labels.get("duck.knative.dev/addressable") == "true"]
    for kind in addressable:
        assert {f"{verb} {kind.plural}.{kind.group}" for verb in ("get", "list", "watch")} <= of("addressable")


@pytest.mark.parametrize("file", sorted(MANIFESTS.rglob("kustomization.yaml")), ids=lambda file: file.parent.name)
def test_kustomization_names_everything_in_its_folder(file: Path) -> None:
    """With the list marker: a comment that mentions a file does not bring it."""
    named = set(re.findall(r"^ *(?:-|path:) (\S+)", file.read_text(), re.MULTILINE))
    beside = {one.name for one in file.parent.iterdir() if one.is_file() or (one / "kustomization.yaml").is_file()}
    assert beside - {file.name} <= named
