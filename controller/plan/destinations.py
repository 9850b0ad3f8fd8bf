"""Resolves Destinations: the address of a `uri` or a `ref`, from what the controller knows already. Pure.

    uri                    as written
    ref: v1 Service        http://<name>.<namespace>.svc.<cluster domain>/
    ref: KafkaChannel      the address that the channel's status publishes, once it is published
    ref: Broker            the same; of another class, in a cluster: the address in its status
    ref: others            in a cluster: the address in the status of any object that is there
    uri beside a ref       relative to it (RFC 3986)

In a cluster a Service must be there too. A ref to anything else stays unresolved, and the message has a hint. Does not
ask a cluster or a name server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urljoin

from controller.config import ControllerConfig
from controller.model import Key
from controller.plan.actions import ClusterView, World
from controller.plan.specs import SubscriptionSpec
from knative.contract import records
from knative.contract.records import BROKER, CHANNEL, TRIGGER
from knative.delivery.policy import Addressable, DeliverySpec
from knative.resources.brokers import KAFKA_CLASS
from knative.resources.conditions import Condition, false, unknown
from knative.resources.destination import Destination, Ref
from knative.resources.effective_delivery import SINK, EffectiveDelivery, effective_delivery
from knative.resources.values import EVENTING, MESSAGING, Broker, DeliveryRules
from knative.urls import uri_problem


class Unresolved(Exception):
    """A Destination that cannot be resolved. Its condition is False if a person must act, Unknown if it `waits`."""

    def __init__(self, reason: str, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.reason, self.message, self.waits = reason, message, waits

    def condition(self, type_: str) -> Condition:
        """Returns the condition of the object that has the Destination."""
        return (unknown if self.waits else false)(type_, self.reason, self.message)


class AddressResolver:
    """Resolves Destinations for one state of the world."""

    def __init__(self, world: World, config: ControllerConfig) -> None:
        self._config = config
        self._cluster = world.cluster
        self._expected = frozenset(
            object_.key for object_ in world.objects if object_.resource.kind in (CHANNEL, BROKER)
        )
        self._others = {
            object_.key: object_.resource
            for object_ in world.objects
            if isinstance(object_.resource, Broker)
            and object_.resource.class_ != KAFKA_CLASS
            and object_.uid not in world.channels
        }
        alive = world.retained | {object_.uid for object_ in world.objects}
        self._published: Mapping[Key, records.Channel] = {
            record.key: record
            for record in world.channels.values()
            if record.uid in alive and record.uid not in world.removals
        }

    def addresses(self, channel: records.Channel) -> tuple[str, ...]:
        """Returns the URLs in a published channel's status. The first one is the address for refs."""
        base = self._config.ingress_url.rstrip("/")
        by_path = (f"{base}{channel.path}",) if base else ()
        return (*by_path, *(f"http://{host}" for host in channel.hosts))

    def resolve(self, destination: Destination | None, namespace: str, what: str, reason: str) -> Addressable | None:
        """Returns where to POST; None without a Destination. `namespace`: for a ref without one.

        Raises Unresolved with `reason` and a message that begins with `what`, the field.
        """
        if destination is None:
            return None
        if destination.ref is None:
            return Addressable(destination.uri, destination.ca_certs)
        ref = replace(destination.ref, namespace=destination.ref.namespace or namespace)
        address = self._address(ref, what, reason)
        uri = address.uri
        if destination.uri:
            uri = urljoin(uri, destination.uri)
        wrong = uri_problem(uri)
        if wrong is not None:
            raise Unresolved(reason, f"{what} resolves to a URI that {wrong[0]}; {wrong[1]}")
        return Addressable(uri, destination.ca_certs or address.ca_certs)

    def delivery(
        self,
        channel: DeliveryRules | None,
        default: DeliverySpec,
        spec: SubscriptionSpec,
    ) -> tuple[DeliverySpec, EffectiveDelivery]:
        """Returns the delivery of a subscription that applies with the sink resolved, and where it comes from.
        `channel`: the channel's or broker's. Raises Unresolved."""
        effective = effective_delivery(spec.delivery, channel, default, by_field=spec.kind == TRIGGER)
        whose = f"the {spec.channel_noun}'s " if SINK in effective.inherited else ""
        what = f"{whose}spec.delivery.deadLetterSink"
        sink = self.resolve(effective.dead_letter_sink, spec.namespace, what, "DeadLetterSinkNotResolved")
        return replace(effective.spec, dead_letter_sink=sink), effective

    def sink(self, rules: DeliveryRules | None, namespace: str, what: str) -> Addressable | None:
        """Returns the dead letter sink of a `delivery`. Raises Unresolved."""
        return self.resolve(rules.dead_letter_sink if rules else None, namespace, what, "DeadLetterSinkNotResolved")

    def _address(self, ref: Ref, what: str, reason: str) -> Addressable:
        if (ref.api_version, ref.kind) == ("v1", "Service"):
            if self._cluster is not None:
                self._in_cluster(ref, self._cluster, what, reason)
            return Addressable(f"http://{ref.name}.{ref.namespace}.svc.{self._config.cluster_domain}/")
        if (ref.api_version.partition("/")[0], ref.kind) in ((MESSAGING, CHANNEL), (EVENTING, BROKER)):
            other = self._others.get((ref.kind, ref.namespace, ref.name))
            if other is not None and other.address is not None:
                return other.address
            return Addressable(self._channel_address(ref, what, reason))
        if self._cluster is not None:
            return self._in_cluster(ref, self._cluster, what, reason)
        raise Unresolved(
            reason,
            f"{what} is a ref to {ref} of {ref.api_version or 'no apiVersion'}; without a cluster, only a Service of "
            f"v1, a KafkaChannel of {MESSAGING}/v1beta1 and a Broker of {EVENTING}/v1 can be resolved: use one of "
            "these, or an absolute `uri`",
        )

    @staticmethod
    def _in_cluster(ref: Ref, cluster: ClusterView, what: str, reason: str) -> Addressable:
        """Returns the address of an object in the cluster. A Service needs none in its status."""
        kind = ref.api_version, ref.kind
        if kind in cluster.unknown:
            raise Unresolved(reason, f"{what}: {cluster.unknown[kind]}; install it, or correct the ref")
        if ref not in cluster.addresses:
            if why := cluster.why_refused(*kind, ref.namespace):
                raise Unresolved(reason, f"{what}: {ref} cannot be read: {why}")
            if kind in cluster.loading:
                raise Unresolved(
                    reason,
                    f"{what}: waiting until the API server has listed objects of the kind {ref.kind}",
                    waits=True,
                )
            raise Unresolved(reason, f"{what}: there is no {ref} of {ref.api_version}; create it, or correct the ref")
        address = cluster.addresses[ref]
        if address is None and kind != ("v1", "Service"):
            raise _has_no_address_yet(ref, what, reason)
        return address or Addressable("")

    def _channel_address(self, ref: Ref, what: str, reason: str) -> str:
        key = ref.kind, ref.namespace, ref.name
        record = self._published.get(key)
        urls = self.addresses(record) if record is not None else ()
        if urls:
            return urls[0]
        if key in self._others and self._cluster is not None:
            raise _has_no_address_yet(ref, what, reason)
        if key in self._others:
            raise Unresolved(
                reason,
                f"{what}: {ref} is not of class {KAFKA_CLASS}, so Penstock does not know its address; write the "
                "address as `uri`",
            )
        if record is not None:
            raise Unresolved(reason, f"{what}: {ref} has no address; see its condition Addressable")
        if key in self._expected:
            raise Unresolved(reason, f"{what}: waiting until {ref} is published; see the status of {ref}", waits=True)
        raise Unresolved(reason, f"{what}: there is no {ref}; create it, or correct the ref")


def _has_no_address_yet(ref: Ref, what: str, reason: str) -> Unresolved:
    message = f"{what}: waiting until {ref} has an address in status.address.url"
    return Unresolved(reason, message, waits=True)
