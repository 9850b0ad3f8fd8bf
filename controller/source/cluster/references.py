"""What our objects refer to in the cluster: which other objects must be watched, and their addresses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.source.cluster.store import Raw, identity_of
from knative.delivery.policy import Addressable
from knative.resources.destination import Destination, Ref
from knative.resources.values import (
    EVENTING,
    MESSAGING,
    Broker,
    DeliveryRules,
    KafkaChannel,
    Resource,
    Subscription,
    Trigger,
)

SERVICE = ("v1", "Service")

#: Kinds of refs that are resolved from the contract, not from the cluster.
_OURS = frozenset(((MESSAGING, "KafkaChannel"), (EVENTING, "Broker")))


@dataclass(frozen=True, slots=True)
class ApiKind:
    """A kind as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def resource(self) -> str:
        """The resource as roles name it."""
        group, slash, _ = self.api_version.rpartition("/")
        return f"{self.plural}.{group}" if slash else self.plural

    def path(self, namespace: str = "") -> str:
        """Returns the path of its list."""
        where = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{group_path(self.api_version)}{where}/{self.plural}"


SERVICE_KIND = ApiKind(*SERVICE, "services", namespaced=True)


def group_path(api_version: str) -> str:
    """Returns the path of an API group's version, which lists its kinds."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def find_kind(listed: Mapping[str, Any], api_version: str, kind: str) -> ApiKind | None:
    """Returns the kind in an answer of the discovery API; None = the server does not have it."""
    for resource in listed.get("resources") or ():
        if resource.get("kind") == kind and "/" not in str(resource.get("name", "/")):
            return ApiKind(api_version, kind, str(resource["name"]), bool(resource.get("namespaced")))
    return None


def refs_of(resources: Iterable[Resource]) -> frozenset[Ref]:
    """Returns the refs whose objects the cluster must show, with their namespaces."""
    refs = set()
    for resource in resources:
        for destination in _destinations(resource):
            ref = destination.ref
            if ref is not None and (ref.api_version.partition("/")[0], ref.kind) not in _OURS:
                refs.add(replace(ref, namespace=ref.namespace or resource.namespace))
    return frozenset(refs)


def _destinations(resource: Resource) -> Iterable[Destination]:
    if isinstance(resource, Subscription | Trigger):
        yield resource.subscriber
    if isinstance(resource, Subscription) and resource.reply is not None:
        yield resource.reply
    if isinstance(resource, KafkaChannel | Broker | Subscription | Trigger):
        yield from _sinks(resource.delivery)
    if isinstance(resource, KafkaChannel):
        for entry in resource.subscribers:
            yield from _sinks(entry.delivery)


def _sinks(rules: DeliveryRules | None) -> Iterable[Destination]:
    if rules is not None and rules.dead_letter_sink is not None:
        yield rules.dead_letter_sink


def config_maps_of(resources: Iterable[Resource]) -> frozenset[tuple[str, str]]:
    """Returns (namespace, name) of the ConfigMaps that Brokers name."""
    return frozenset(
        resource.config for resource in resources if isinstance(resource, Broker) and resource.config is not None
    )


def address_of(raw: Raw) -> Addressable | None:
    """Returns the address in an Addressable's status; None = it has none yet."""
    status = raw.get("status")
    address = status.get("address") if isinstance(status, Mapping) else None
    url = address.get("url") if isinstance(address, Mapping) else None
    if not isinstance(address, Mapping) or not isinstance(url, str) or not url:
        return None
    certs = address.get("CACerts")
    return Addressable(url, certs if isinstance(certs, str) else "")


def trim_addressable(raw: Raw) -> Raw:
    """Returns what to keep of an object that is only referred to."""
    status = raw.get("status")
    address = status.get("address") if isinstance(status, Mapping) else None
    return {"metadata": identity_of(raw), "status": {"address": address} if address else {}}
