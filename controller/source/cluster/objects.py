"""Objects of the API server as resources with their identity, which the server gave them. Pure.

Not every object may be acted on: one that is being deleted is on its way out, one without our finalizer could vanish
with its topic left behind, and one that is not valid is served as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from controller.model import Key
from controller.plan.actions import AnyObject, Object, WriteStatus
from controller.source.cluster.references import ApiKind, address_of
from controller.source.cluster.store import Name, Raw, identity_of, metadata_of, name_of, uid_of
from knative.resources.brokers import BROKER_CLASS, CLASS_NOT_SERVED, KAFKA_CLASS, NAMESPACED_CLASS, is_of_a_broker
from knative.resources.conditions import conditions_of, false
from knative.resources.kinds import API_VERSIONS, Invalid, parse, spec_hash
from knative.resources.values import Broker, KafkaChannel, ResetOffset, Resource, Subscription, Trigger

FINALIZER = "penstock.dev/finalizer"
#: Tells Knative which version of its duck type Channelable a channel is.
SUBSCRIBABLE = {"messaging.knative.dev/subscribable": "v1"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_API_KINDS = {
    kind: ApiKind(api_version, kind, f"{kind.lower()}s", namespaced=True) for kind, api_version in API_VERSIONS.items()
}


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """Returns the path of a list of this kind, or of one object."""
    return _API_KINDS[kind].path(namespace) + (f"/{name}" if name else "")


def grant(verbs: str, kind: str, subresource: str = "") -> str:
    """Returns what to do when the controller may not do this."""
    noun = "verbs" if " " in verbs else "verb"
    return f"grant the {noun} {verbs} on {_API_KINDS[kind].resource}{subresource} to the controller"


def trimmed(kind: str) -> Any:
    """Returns what to keep of objects of this kind: everything but what only other programs read."""

    def trim(raw: Raw) -> Raw:
        metadata = {key: value for key, value in metadata_of(raw).items() if key != "managedFields"}
        if isinstance(metadata.get("annotations"), Mapping) and LAST_APPLIED in metadata["annotations"]:
            metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != LAST_APPLIED}
        # The items of a list of a core kind do not say what they are.
        return {**raw, "apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata}

    return trim


def trim_config_map(raw: Raw) -> Raw:
    """Returns what to keep of a ConfigMap of any use: what it may say about a Broker's topic."""
    entries = raw.get("data")
    data = {key: value for key, value in entries.items() if is_of_a_broker(key)} if isinstance(entries, Mapping) else {}
    return {"apiVersion": API_VERSIONS["ConfigMap"], "kind": "ConfigMap", "metadata": identity_of(raw), "data": data}


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """One of our objects, as it was read. `resource` None = it is not valid, and `problem` says why."""

    raw: Raw
    uid: str
    generation: int
    resource: Resource | None
    hash: str = ""
    problem: str = ""
    deleting: bool = False
    finalized: bool = False  #: it has our finalizer

    def as_object(self) -> AnyObject:
        """Returns the object for `reconcile`."""
        assert self.resource is not None, "the caller has looked"
        object_: Object[Any] = Object(self.uid, self.generation, self.hash, self.resource)
        return object_

    @property
    def facts(self) -> tuple[object, ...]:
        """The parts that decisions depend on. Changes of a status are ignored."""
        return self.uid, self.generation, self.hash, self.problem, self.deleting, self.finalized

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.raw["kind"])

    @property
    def key(self) -> Key:
        """(kind, namespace, name)."""
        return self.kind, *name_of(self.raw)

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(name_of(self.raw))}"

    @property
    def invalid_status(self) -> WriteStatus:
        """The status of an object that is not valid."""
        return self.not_ready("SpecInvalid", self.problem)

    def not_ready(self, reason: str, message: str) -> WriteStatus:
        """Returns the status of an object that is not served for this reason."""
        return WriteStatus(*self.key, self.uid, self.generation, (false("Ready", reason, message),), {})


def read_object(raw: Raw) -> ClusterObject:
    """Returns an object of one of our kinds."""
    metadata = metadata_of(raw)
    uid, generation = uid_of(raw), int(metadata.get("generation") or 1)
    deleting = bool(metadata.get("deletionTimestamp"))
    finalized = FINALIZER in (metadata.get("finalizers") or ())
    object_ = ClusterObject(raw, uid, generation, None, spec_hash(raw), "", deleting, finalized)
    try:
        resource = parse({key: value for key, value in raw.items() if key != "status"})
    except Invalid as problem:
        return replace(object_, problem=str(problem))
    if resource is None:  # the lists are of our kinds, so this is a version that we do not know
        return replace(object_, problem=f"{raw.get('apiVersion')} is not served by this version")
    if isinstance(resource, ResetOffset):
        resource = replace(resource, over=_is_over(raw), created=_created_s(metadata))
    if isinstance(resource, Broker) and resource.class_ != KAFKA_CLASS:
        resource = replace(resource, address=address_of(raw))
    return replace(object_, resource=resource)


def _is_over(raw: Raw) -> bool:
    """Returns whether the status of a ResetOffset says how it ended."""
    status = raw.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return any(
        condition.get("type") == "Ready" and condition.get("status") in ("True", "False")
        for condition in conditions or ()
    )


def _created_s(metadata: Raw) -> float:
    """Returns when the API server created an object; 0 = it does not say."""
    try:
        return datetime.fromisoformat(str(metadata.get("creationTimestamp"))).timestamp()
    except ValueError:
        return 0.0


def owns_something(resource: Resource | None) -> bool:
    """Returns whether an object with this content has topics or a group in Kafka, so that it needs our finalizer."""
    if isinstance(resource, Broker):
        return resource.class_ == KAFKA_CLASS
    return isinstance(resource, KafkaChannel | Subscription | Trigger)


def is_of_another_class(object_: ClusterObject) -> bool:
    """Returns whether it is a Broker that another controller serves."""
    return isinstance(object_.resource, Broker) and not owns_something(object_.resource) and not object_.finalized


def namespaced_status(object_: ClusterObject) -> WriteStatus | None:
    """Returns the status of a Broker of the class KafkaNamespaced, which nobody else serves: it says what to do
    instead. None = it is of another class, or another implementation has written its status."""
    broker = object_.resource
    if not isinstance(broker, Broker) or broker.class_ != NAMESPACED_CLASS or object_.finalized or object_.deleting:
        return None
    if any(condition.reason != CLASS_NOT_SERVED for condition in conditions_of(object_.raw.get("status"))):
        return None
    message = (
        f"the class {NAMESPACED_CLASS} needs a data plane in each namespace, which Penstock does not have, so nobody "
        f"serves this Broker. The class cannot be changed: delete the Broker, and create it again with {BROKER_CLASS}: "
        f"{KAFKA_CLASS}; its topics and events are not taken over"
    )
    return object_.not_ready(CLASS_NOT_SERVED, message)


def broker_of(trigger: Raw) -> Name:
    """Returns the Broker that a Trigger names, valid or not."""
    return name_of(trigger)[0], str(_spec_of(trigger).get("broker") or "")


def is_written_into(object_: ClusterObject, channels: Collection[Name]) -> bool:
    """Returns whether core writes it into a KafkaChannel: a Subscription that stays. `channels`: the names of all."""
    channel = _spec_of(object_.raw).get("channel")
    if object_.kind != "Subscription" or object_.deleting or not isinstance(channel, Mapping):
        return False
    kind = channel.get("kind") or "KafkaChannel"
    # Core puts the subscribers of a Channel into one of the same name that backs it.
    backed = (name_of(object_.raw)[0], str(channel.get("name") or "")) in channels
    return kind == "KafkaChannel" or (kind == "Channel" and backed)


def _spec_of(raw: Raw) -> Raw:
    """Returns `spec` as it is written, of an object that may not be valid."""
    spec = raw.get("spec")
    return spec if isinstance(spec, Mapping) else {}


@dataclass(frozen=True, slots=True)
class FinalizerChange:
    """An object whose list of finalizers must be another one."""

    object: ClusterObject
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)  #: that are set in the same request


def lacks_annotation(object_: ClusterObject) -> bool:
    """Returns whether it is a channel that does not say yet which Channelable it is."""
    annotations = metadata_of(object_.raw).get("annotations") or {}
    return object_.kind == "KafkaChannel" and not SUBSCRIBABLE.items() <= annotations.items()


def change_finalizer(object_: ClusterObject, *, has: bool) -> FinalizerChange:
    """Returns the change that gives or takes our finalizer; those of others stay."""
    annotations = SUBSCRIBABLE if has and object_.kind == "KafkaChannel" else {}
    others = [str(other) for other in metadata_of(object_.raw).get("finalizers") or () if other != FINALIZER]
    return FinalizerChange(object_, (*others, FINALIZER) if has else tuple(others), annotations)
