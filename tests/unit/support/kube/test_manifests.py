"""The roles in the manifests: exact verbs, nobody but the controller, and every kind that Knative looks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from knative.resources.kinds import OURS
from tests.support.kube.audit import grants
from tests.support.kube.kustomize import MANIFESTS
from tests.support.kube.manifests import NAMESPACE, WORKER, channel_services_role, controller_role, rbac

EVERY = [*rbac(), *channel_services_role()]
ROLES = [document for document in EVERY if document["kind"] in ("Role", "ClusterRole")]
BINDINGS = [document for document in EVERY if document["kind"].endswith("Binding")]


def _name(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def test_no_role_has_a_wildcard_or_secrets() -> None:
    excessive = [
        f"{_name(role)}: {grant}"
        for role in ROLES
        for grant in grants([role])
        if "*" in (grant.group, grant.resource, grant.verb)
        or grant.resource.startswith("secrets")
        or grant.verb in ("escalate", "bind", "impersonate", "deletecollection")
    ]
    assert excessive == []


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


def test_role_for_services_is_where_the_setting_is() -> None:
    texts = {file.parent.name: file.read_text() for file in MANIFESTS.glob("[co]*/*/kustomization.yaml")}
    role = re.compile(r"^ +- \S*/channel-services-role\b", re.MULTILINE)
    with_role = {name for name, text in texts.items() if role.search(text)}
    assert with_role == {name for name, text in texts.items() if "- PENSTOCK_CHANNEL_SERVICES=" in text}


def test_nothing_is_bound_to_workers() -> None:
    assert WORKER not in [subject["name"] for binding in BINDINGS for subject in binding["subjects"]]
    account = next(
        document
        for document in rbac()
        if document["kind"] == "ServiceAccount" and document["metadata"]["name"] == WORKER
    )
    assert account["automountServiceAccountToken"] is False


def test_bindings_name_roles_and_accounts_that_are_there() -> None:
    roles = {(role["kind"], role["metadata"]["name"]) for role in ROLES}
    accounts = {
        (NAMESPACE, document["metadata"]["name"]) for document in rbac() if document["kind"] == "ServiceAccount"
    }
    assert {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in BINDINGS} <= roles
    subjects = [subject for binding in BINDINGS for subject in binding["subjects"]]
    assert {(subject["namespace"], subject["name"]) for subject in subjects} <= accounts


def test_duck_roles_have_all_that_knative_needs() -> None:
    def of(label: str) -> set[str]:
        roles = [role for role in ROLES if role["metadata"]["labels"].get(f"duck.knative.dev/{label}") == "true"]
        return {str(grant) for grant in grants(roles)}

    verbs = ("create", "get", "list", "watch", "update", "patch", "delete")
    where = ("kafkachannels.messaging.knative.dev", "kafkachannels/status.messaging.knative.dev")
    assert of("channelable") == {f"{verb} {resource}" for verb in verbs for resource in where}
    addressable = [kind for kind in OURS if kind.labels.get("duck.knative.dev/addressable") == "true"]
    for kind in addressable:
        assert {f"{verb} {kind.plural}.{kind.group}" for verb in ("get", "list", "watch")} <= of("addressable")


def _not_named(file: Path) -> set[str]:
    """Only what has the marker of a list is named: a comment that mentions a file does not bring it."""
    named = set(re.findall(r"^ *(?:-|path:) (\S+)", file.read_text(), re.MULTILINE))
    beside = {path.name for path in file.parent.iterdir() if path.is_file() or (path / "kustomization.yaml").is_file()}
    return beside - {file.name} - named


def test_kustomization_names_everything_in_its_folder() -> None:
    files = sorted(MANIFESTS.rglob("kustomization.yaml"))
    assert {str(file.relative_to(MANIFESTS)): _not_named(file) for file in files if _not_named(file)} == {}
