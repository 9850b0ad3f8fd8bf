"""What the facts about an API server mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from app.operations.doctor.ask_cluster import needed
from app.operations.doctor.cluster import APPLY, ROLES, Access, ClusterFacts, accesses
from app.operations.doctor.table import Facts
from app.operations.manifests import CRDS, OF_KNATIVE, crd_file
from app.settings.fields import Settings
from controller.kube.lease import LeaseView
from knative.resources.crds import crd
from knative.resources.kinds import OURS
from tests.unit.app.operations.doctor.rows import rows

CHANNEL = {"kind": "Channel", "name": "channels", "namespaced": True}


def _served(*missing: str, core: bool = False) -> dict[str, Mapping[str, Any] | None]:
    served: dict[str, Any] = {}
    for kind in OURS:
        if kind.name not in missing:
            for version in kind.versions:
                rows = served.setdefault(f"{kind.group}/{version}", {"resources": []})["resources"]
                rows.append({"kind": kind.name, "name": kind.plural, "namespaced": True})
    if core:
        served.setdefault("messaging.knative.dev/v1", {"resources": []})["resources"].append(CHANNEL)
    return served


GOOD = ClusterFacts(
    "https://k", version="v1.34.1", ahead_s=0.1, served=_served(), crds={kind.name: crd(kind) for kind in OURS},
    user="me", asked=23,
)  # fmt: skip


def _found(facts: ClusterFacts, mode: str = "auto") -> dict[str, list[tuple[str, str]]]:
    checks: dict[str, list[tuple[str, str]]] = {}
    for row in rows(Facts(cluster=replace(facts, mode=mode))):
        checks.setdefault(row.name, []).append((row.level, row.text))
    return checks


def _hints(facts: ClusterFacts, name: str, mode: str = "auto") -> list[str]:
    return [row.hint for row in rows(Facts(cluster=replace(facts, mode=mode))) if row.name == name]


def test_good_facts_have_only_good_rows() -> None:
    checks = _found(GOOD)
    assert {level for rows in checks.values() for level, _ in rows} == {"ok"}
    assert list(checks) == ["API server", "clock of the API server", "CRDs", "subscriptions", "permissions"]
    assert checks["permissions"] == [("ok", "me has all 23 permissions that the controller needs")]


@pytest.mark.parametrize(
    ("ahead_s", "level"), [(1.9, "ok"), (-1.9, "ok"), (3.0, "warning"), (-11.0, "problem"), (None, "")]
)
def test_clock_of_the_api_server_may_differ_a_little(ahead_s: float | None, level: str) -> None:
    rows = _found(replace(GOOD, ahead_s=ahead_s)).get("clock of the API server", [("", "")])
    assert rows[0][0] == level
    for hint in _hints(replace(GOOD, ahead_s=ahead_s), "clock of the API server"):
        assert hint.startswith("synchronize both clocks, as with NTP" if level != "ok" else "")


@pytest.mark.parametrize(
    ("holder", "not_renewed_s", "level", "says"),
    [
        ("me", 2.0, "ok", "me has penstock/penstock-controller, renewed 2 s ago"),
        ("me", -0.5, "ok", "renewed 0 s ago"),
        ("me", 16.0, "problem", "renewed 16 s ago, which is too long: nobody leads"),
        ("", 2.0, "warning", "nobody has penstock/penstock-controller, so changes of resources wait"),
    ],
)
def test_lease_of_the_controllers(holder: str, not_renewed_s: float, level: str, says: str) -> None:
    lease = LeaseView(holder, 15, 1, "", "7")
    facts = replace(GOOD, lease=lease, lease_name="penstock/penstock-controller", not_renewed_s=not_renewed_s)
    ((state, text),) = _found(facts)["Lease"]
    assert (state, says in text) == (level, True), text
    assert "Lease" not in _found(GOOD)


def test_namespaces_that_do_not_exist() -> None:
    checks = _found(replace(GOOD, no_namespaces=["a", "b"]))["namespaces"]
    assert checks == [("warning", "the cluster has no namespace a, b, so nothing there is served")]
    hints = _hints(replace(GOOD, no_namespaces=["a", "b"]), "namespaces")
    assert hints == ["create it, or correct PENSTOCK_RESOURCES"]


def test_kinds_that_are_not_installed() -> None:
    every = _found(replace(GOOD, served={}))["CRDs"]
    assert [level for level, _ in every] == ["problem"]
    assert _hints(replace(GOOD, served={}), "CRDs") == [
        f"{APPLY} -k {CRDS / 'own'}; and, without Knative eventing, -k {CRDS / 'knative'}"
    ]
    some = _found(replace(GOOD, served=_served("Broker", "Trigger")))["CRDs"]
    assert [(level, text.split()[0]) for level, text in some] == [("warning", "Broker"), ("warning", "Trigger")]
    assert _hints(replace(GOOD, served=_served("Trigger")), "CRDs") == [
        f"to use this kind: {APPLY} -f {CRDS / 'knative' / 'triggers.yaml'}"
    ]


def test_kinds_of_another_version() -> None:
    def changed(labels: dict[str, str]) -> dict[str, Any]:
        other: dict[str, Any] = yaml.safe_load(yaml.safe_dump(crd(OURS[0])))
        other["metadata"]["labels"] = labels
        other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("spec")
        return other

    name = OURS[0].name
    ours = replace(GOOD, crds={**GOOD.crds, name: changed({"app.kubernetes.io/name": "penstock"})})
    assert _found(ours)["CRDs"] == [("warning", f"{name} is of another version of Penstock: its fields differ")]
    (hint,) = _hints(ours, "CRDs")
    assert hint == f"if this command is the newer one: {APPLY} -f {crd_file(OURS[0])}; else update this command"
    unread = _found(replace(GOOD, crds={**GOOD.crds, name: None}))["CRDs"]
    assert unread[0][0] == "ok"
    assert "may not read CRDs" in unread[0][1]


PENSTOCKS, KNATIVES = {"app.kubernetes.io/name": "penstock"}, {"app.kubernetes.io/name": "knative-eventing"}


@pytest.mark.parametrize(
    ("kind", "labels", "core", "says", "advises"),
    [
        ("Broker", KNATIVES, True, "", ""),
        ("Broker", KNATIVES, False, "", ""),  # its other half may come later
        ("Broker", PENSTOCKS, False, "", ""),
        ("Broker", PENSTOCKS, True, "the CRD of Broker is that of Penstock", "eventing-crds.yaml"),
        ("KafkaChannel", PENSTOCKS, True, "", ""),
        ("KafkaChannel", KNATIVES, True, "another implementation's", f"{APPLY} --force-conflicts -f"),
        ("KafkaChannel", {}, False, "another implementation's", "if the other one is not used any more"),
    ],
)
def test_whose_the_crds_are(kind: str, labels: dict[str, str], core: bool, says: str, advises: str) -> None:
    stored = {**GOOD.crds[kind], "metadata": {"labels": labels}}  # type: ignore[dict-item]
    others = {definition.name: None for definition in OF_KNATIVE} if core else {}
    crds = {**GOOD.crds, **others, kind: stored}
    facts = replace(GOOD, served=_served(core=core), crds=crds)
    ((level, text),) = _found(facts)["CRDs"]
    assert (level, says in text) == ("warning" if says else "ok", True), text
    assert all(advises in hint for hint in _hints(facts, "CRDs"))


@pytest.mark.parametrize(
    ("mode", "core", "level", "says", "hint"),
    [
        ("auto", False, "ok", "auto: the cluster does not have Knative's kind Channel, so subscriptions are own: ", ""),
        ("auto", True, "ok", "auto: the cluster has Knative's kind Channel, so subscriptions are core: ", ""),
        ("own", False, "ok", "PENSTOCK_SUBSCRIPTIONS=own: this controller resolves Subscriptions", ""),
        ("own", True, "warning", "its core may resolve the same Subscriptions",
         "set PENSTOCK_SUBSCRIPTIONS=auto, unless core does not run"),
        ("core", True, "ok", "PENSTOCK_SUBSCRIPTIONS=core: Knative's core resolves", ""),
        ("core", False, "problem", "so nobody does",
         "set PENSTOCK_SUBSCRIPTIONS=auto or own, or install Knative eventing"),
    ],
)  # fmt: skip
def test_resolver_follows_mode_and_core(mode: str, core: bool, level: str, says: str, hint: str) -> None:
    facts = replace(GOOD, served=_served(core=core))
    ((state, text),) = _found(facts, mode)["subscriptions"]
    assert state == level
    assert says in text
    assert _hints(facts, "subscriptions", mode) == [hint]


def test_permissions_that_are_missing() -> None:
    denied = [
        (Access("coordination.k8s.io", "leases", "update", own=True), "penstock"),
        (Access("", "services", "list"), ""),
        (Access("", "services", "watch"), ""),
    ]
    checks = _found(replace(GOOD, denied=denied))["permissions"]
    assert checks == [
        ("problem", "me may not list, watch services, update leases.coordination.k8s.io in namespace penstock")
    ]
    (hint,) = _hints(replace(GOOD, denied=denied), "permissions")
    assert hint == (
        "if this is the controller's user, apply the overlay that you installed again; else run this as that user"
    )
    many = [(Access("", f"kind{number}", "get"), "") for number in range(9)]
    assert "get kind8" in _found(replace(GOOD, denied=many))["permissions"][0][1], "each rule that is missing"
    unknown = replace(GOOD, unknown="403")
    assert _found(unknown)["permissions"][0][0] == "warning"
    assert _hints(unknown, "permissions") == ["compare the controller's roles with knative/manifests/rbac"]


def test_what_the_controller_needs_is_what_its_roles_grant() -> None:
    granted = accesses(yaml.safe_load_all(ROLES.read_text()))
    assert Access("messaging.knative.dev", "kafkachannels/status", "patch") in granted
    assert Access("coordination.k8s.io", "leases", "create", own=True) in granted
    asked = Access("messaging.knative.dev", "kafkachannels/status", "patch").review("ns")["spec"]
    assert asked == {
        "resourceAttributes": {
            "group": "messaging.knative.dev", "resource": "kafkachannels", "subresource": "status", "verb": "patch",
            "namespace": "ns",
        }
    }  # fmt: skip


def test_services_may_be_written_only_with_the_setting() -> None:
    create = (Access("", "services", "create"), "")
    assert create not in needed(Settings(), "penstock")
    assert create in needed(Settings(channel_services="ingress.test"), "penstock")
