"""What the facts about an API server mean: its clock, CRDs, who resolves Subscriptions, permissions. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.operations.doctor.check import START_CONTROLLER, Answer, clock, ok, problem, some, warning
from app.operations.manifests import CRDS, OF_KNATIVE, crd_file
from controller.kube.lease import LeaseView
from controller.source.cluster.mode import MEANS, find_mode, has_core
from knative.resources.crds import crd
from knative.resources.kinds import OURS
from knative.resources.schema import Kind
from knative.resources.values import MESSAGING

#: Fails where another manager has set a field, as in the CRDs of Knative.
APPLY = "kubectl apply --server-side --field-manager=penstock"
ROLES = CRDS.parent / "rbac" / "controller.yaml"
SERVICES_ROLE = CRDS.parent / "components" / "channel-services-role" / "role.yaml"  #: for PENSTOCK_CHANNEL_SERVICES
CORE_GROUP = f"{MESSAGING}/v1"
_OURS_LABEL = ("app.kubernetes.io/name", "penstock")


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """Something that the controller does. `own`: only in its own namespace."""

    group: str
    resource: str
    verb: str
    own: bool = False

    def review(self, namespace: str) -> dict[str, object]:
        """Returns a SelfSubjectAccessReview; `namespace` "" = all."""
        resource, _, subresource = self.resource.partition("/")
        asked = {"group": self.group, "resource": resource, "verb": self.verb}
        if subresource:
            asked["subresource"] = subresource
        if namespace:
            asked["namespace"] = namespace
        api = "authorization.k8s.io/v1"
        return {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What an API server says about itself, and about the user who asks."""

    host: str = ""
    version: str = ""
    mode: str = "auto"  #: own, core or auto, as the setting says
    ahead_s: float | None = None  #: of its clock; None = it does not say what time it is
    served: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)  #: group/version -> its kinds
    crds: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)  #: kind -> CRD; None = may not be read
    no_namespaces: Sequence[str] = ()  #: those of the settings that do not exist
    user: str | None = None  #: None = the server does not say
    denied: Sequence[tuple[Access, str]] = ()  #: what is not allowed, and in which namespace; "" = in all
    asked: int = 0  #: how many permissions were asked for
    unknown: str | None = None  #: why permissions could not be asked for
    lease: LeaseView | None = None  #: of the controllers; None = there is none, or this user may not read it
    lease_name: str = ""
    not_renewed_s: float | None = None  #: how long ago it was renewed, by the clock of the API server; None = not known


def accesses(documents: Iterable[Mapping[str, Any]]) -> list[Access]:
    """Returns what the controller's roles allow: the ClusterRole where it serves, the Role in its own namespace."""
    return sorted(
        Access(group, resource, verb, document["kind"] == "Role")
        for document in documents
        if document.get("kind") in ("ClusterRole", "Role")
        for rule in document.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def server(facts: ClusterFacts) -> Iterable[Answer]:
    """Says which version it has."""
    yield ok(f"Kubernetes {facts.version} at {facts.host}")


def clock_of(facts: ClusterFacts) -> Iterable[Answer]:
    """Says nothing if the server does not say what time it is."""
    if facts.ahead_s is not None:
        yield clock("the clock of the API server", facts.ahead_s)


def namespaces(facts: ClusterFacts) -> Iterable[Answer]:
    """Names only those that are missing."""
    if facts.no_namespaces:
        text = f"the cluster has no namespace {some(facts.no_namespaces)}, so nothing there is served"
        yield warning(text, "create it, or correct PENSTOCK_RESOURCES")


def lease(facts: ClusterFacts) -> list[Answer]:
    """Says who leads, if this user may know."""
    if facts.lease is None or facts.not_renewed_s is None:
        return []
    if facts.lease.released:
        return [warning(f"nobody has {facts.lease_name}, so changes of resources wait", START_CONTROLLER)]
    text = f"{facts.lease.holder} has {facts.lease_name}, renewed {max(0.0, facts.not_renewed_s):.0f} s ago"
    if facts.not_renewed_s <= facts.lease.duration_s:
        return [ok(text)]
    hint = "see the log and `/readyz` of this controller: it has ended, or does not reach the API server"
    return [problem(f"{text}, which is too long: nobody leads", hint)]


def crds(facts: ClusterFacts) -> list[Answer]:
    """Says whether they are installed, whose they are, and of which version."""
    missing = [kind for kind in OURS if not _is_served(kind, facts)]
    checks = []
    if len(missing) == len(OURS):
        text = f"the cluster has no kinds of Penstock: {', '.join(kind.name for kind in OURS)}"
        hint = f"{APPLY} -k {CRDS / 'own'}"
        return [problem(text, f"{hint}; and, without Knative eventing, -k {CRDS / 'knative'}")]
    for kind in missing:
        text = f"{kind.name} is not installed, so the cluster can have none"
        checks.append(warning(text, f"to use this kind: {APPLY} -f {crd_file(kind)}"))
    unread = []
    for kind in OURS:
        definition = facts.crds.get(kind.name)
        if kind in missing:
            continue
        if definition is None:
            unread.append(kind.name)
        elif (check := _whose(kind, definition, core=has_core(facts.served.get(CORE_GROUP)))) is not None:
            checks.append(check)
    if not checks:
        installed = ", ".join(kind.name for kind in OURS if kind not in missing)
        unsure = " (their versions were not compared: this user may not read CRDs)" if unread else ""
        checks.append(ok(f"installed: {installed}{unsure}"))
    return checks


def _whose(kind: Kind, definition: Mapping[str, Any], *, core: bool) -> Answer | None:
    """Returns what is wrong with the CRD in the server; None = nothing. Knative's CRDs of its own kinds are
    right, even with more fields than ours."""
    of_knative = kind in OF_KNATIVE
    if core and of_knative and _is_ours(definition):
        text = (
            f"Knative eventing is installed, but the CRD of {kind.name} is that of Penstock, which lacks some of "
            "Knative's fields"
        )
        hint = "apply eventing-crds.yaml of your release of Knative eventing again; Penstock works with it"
        return warning(text, hint)
    if not of_knative and not _is_ours(definition):
        text = f"the CRD of {kind.name} is another implementation's: fields may be lost, and two controllers may act"
        hint = f"if the other one is not used any more: {APPLY} --force-conflicts -f {crd_file(kind)}"
        return warning(text, hint)
    if _is_ours(definition) and not same_schema(kind, definition):
        text = f"{kind.name} is of another version of Penstock: its fields differ"
        hint = f"if this command is the newer one: {APPLY} -f {crd_file(kind)}; else update this command"
        return warning(text, hint)
    return None


def _is_served(kind: Kind, facts: ClusterFacts) -> bool:
    return any(
        resource.get("name") == kind.plural
        for version in kind.versions
        for resource in (facts.served.get(f"{kind.group}/{version}") or {}).get("resources") or ()
    )


def same_schema(kind: Kind, definition: Mapping[str, Any]) -> bool:
    """Returns whether a CRD of the server has the fields that this version knows."""
    return _schemas(crd(kind)) == _schemas(definition)


def _schemas(definition: Mapping[str, Any]) -> dict[str, object]:
    return {
        version["name"]: version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if version["served"]
    }


def _is_ours(definition: Mapping[str, Any]) -> bool:
    """Knative brings some of the kinds itself, with more fields."""
    key, value = _OURS_LABEL
    return (definition["metadata"].get("labels") or {}).get(key) == value


def who_resolves(facts: ClusterFacts) -> Iterable[Answer]:
    """Says what the setting says, and whether that is right."""
    listed, mode = facts.served.get(CORE_GROUP), facts.mode
    said = f"PENSTOCK_SUBSCRIPTIONS={mode}: {MEANS.get(mode)}"
    if mode == "auto":
        choice = find_mode(listed)
        yield ok(f"auto: {choice.why}: {MEANS[choice.value]}")
    elif mode == "own" and has_core(listed):
        both = "; the cluster has Knative's kind Channel too, and its core may resolve the same Subscriptions"
        yield warning(said + both, "set PENSTOCK_SUBSCRIPTIONS=auto, unless core does not run")
    elif mode == "core" and not has_core(listed):
        none = "; but the cluster does not have Knative's kind Channel, so nobody does"
        yield problem(said + none, "set PENSTOCK_SUBSCRIPTIONS=auto or own, or install Knative eventing")
    else:
        yield ok(said)


def permissions(facts: ClusterFacts) -> Iterable[Answer]:
    """Says whether this user may do what the controller does."""
    user = facts.user or "this user"
    if facts.unknown is not None:
        text = f"the API server did not say which this user has: {facts.unknown}"
        yield warning(text, "compare the controller's roles with knative/manifests/rbac")
    elif not facts.denied:
        yield ok(f"{user} has all {facts.asked} permissions that the controller needs")
    else:
        # Not the folder of the roles: its bindings are of another namespace, and would take this controller's rights.
        hint = (
            "if this is the controller's user, apply the overlay that you installed again; else run this as that user"
        )
        yield problem(f"{user} may not {', '.join(_denied(facts.denied))}", hint)


def _denied(denied: Iterable[tuple[Access, str]]) -> Iterable[str]:
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for access, namespace in sorted(denied):
        name = f"{access.resource}.{access.group}" if access.group else access.resource
        grouped[name, namespace].append(access.verb)
    for (name, namespace), verbs in grouped.items():
        yield f"{', '.join(verbs)} {name}" + (f" in namespace {namespace}" if namespace else "")
