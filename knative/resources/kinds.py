"""The kinds that people write: their fields, defaults and checks, from plain mappings to frozen values.

`parse` takes an object from a YAML or JSON parser or the API server, and returns a value or raises every problem, each
with its field and a hint. A field that this version would ignore silently is a problem too.

Brokers, Triggers and ResetOffsets are to join KINDS as functions of the same signature.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from knative.delivery.policy import BackoffPolicy, DeliveryOrder, DeliverySpec, OnRetriesExhausted
from knative.resources.destination import Destination, read_destination, uri_problem
from knative.resources.object_reader import FieldProblem, ObjectReader

MESSAGING = "messaging.knative.dev"
ORDER = "kafka.eventing.knative.dev/delivery.order"
CONCURRENCY = "penstock.dev/concurrency"
START = "penstock.dev/start"
EXHAUSTED = "penstock.dev/exhausted"
HOSTS = "penstock.dev/hosts"
KEEP_TOPIC = "penstock.dev/keep-topic"

#: Annotations that count as part of the spec: a change of one is a new generation.
SPEC_ANNOTATIONS = frozenset({ORDER, CONCURRENCY, START, EXHAUSTED, HOSTS, KEEP_TOPIC})

RETENTION_S = 168 * 3600.0
PARTITIONS_MAX = 10_000
CONCURRENCY_MAX = 10_000
HOSTS_MAX = 32

#: Fields of `metadata` that are ignored. The API server and tools set most of them.
METADATA = (
    *("labels", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "generateName"),
    *("deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields", "selfLink"),
)

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?", re.ASCII)
_UID = re.compile(r"[a-zA-Z0-9._-]{1,200}", re.ASCII)


class Start(StrEnum):
    """Where a new subscription starts in its topic."""

    LATEST = "latest"
    EARLIEST = "earliest"


class Invalid(ValueError):
    """An object that is not valid for its kind. `problems` has every reason."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """A `delivery` as written: the spec without its dead letter sink, and the sink before it is resolved."""

    spec: DeliverySpec
    dead_letter_sink: Destination | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An entry of `KafkaChannel.spec.subscribers`: a subscription that another controller has resolved."""

    uid: str
    name: str
    generation: int
    subscriber: Destination
    reply: Destination | None = None
    delivery: DeliveryRules | None = None


@dataclass(frozen=True, slots=True)
class KafkaChannel:
    """A topic with an address."""

    namespace: str
    name: str
    partitions: int = 1
    replication: int = 1
    retention_s: float = RETENTION_S
    delivery: DeliveryRules | None = None
    subscribers: tuple[Subscriber, ...] = ()
    hosts: tuple[str, ...] = ()  #: further Host values that the user chose, lower-case, without port
    keep_topic: bool = False
    kind: str = "KafkaChannel"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Wants the events of a channel in the same namespace."""

    namespace: str
    name: str
    channel: str
    subscriber: Destination
    reply: Destination | None = None
    delivery: DeliveryRules | None = None
    order: DeliveryOrder = DeliveryOrder.ORDERED
    concurrency: int = 100
    start: Start = Start.LATEST
    exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER
    kind: str = "Subscription"


Resource = KafkaChannel | Subscription


def parse(value: Mapping[str, object]) -> Resource | None:
    """An object of one of our kinds with its defaults; None for any other kind.

    Raises Invalid with every problem found. `spec` may be absent if all its fields have defaults.
    """
    problems: list[FieldProblem] = []
    reader = ObjectReader(value, (), problems)
    api_version, kind = reader.text("apiVersion", required=True), reader.text("kind", required=True)
    if problems:
        raise Invalid(problems)
    group, _, version = api_version.partition("/")
    if (group, kind) not in KINDS:
        return None
    versions, read = KINDS[group, kind]
    if version not in versions:
        reader.problem("apiVersion", f"{api_version!r} is not served", f"write {group}/{versions[0]}")
    namespace, name, annotations = _metadata(reader)
    resource = read(reader, namespace, name, annotations)
    annotations.finish(only="penstock.dev/")
    reader.read("status")
    reader.finish()
    if problems:
        raise Invalid(problems)
    return resource


def meant(kind: object) -> str:
    """What to write instead of a kind that looks like a misspelt kind of ours; "" if it does not."""
    ours = {name.lower(): (group, versions[0], name) for (group, name), (versions, _) in KINDS.items()}
    close = difflib.get_close_matches(str(kind).lower(), ours, n=1, cutoff=0.7)
    if not close:
        return ""
    group, version, name = ours[close[0]]
    return f"apiVersion: {group}/{version} and kind: {name}"


def spec_hash(value: Mapping[str, object]) -> str:
    """A short digest of an object's spec and of the annotations that count as part of it."""
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    ours = {key: annotations[key] for key in annotations if key in SPEC_ANNOTATIONS} if annotations else {}
    asked = json.dumps([value.get("spec") or {}, ours], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def _metadata(reader: ObjectReader) -> tuple[str, str, ObjectReader]:
    """(namespace, name, annotations). Other fields are ignored, but unknown ones such as `namespac` are problems."""
    metadata = reader.mapping("metadata", required=True)
    if metadata is None:
        return "default", "", ObjectReader({}, (), [])
    name = metadata.text("name", required=True)
    if name and not _SUBDOMAIN.fullmatch(name):
        metadata.problem("name", f"{name[:64]!r} is not a valid name", "use lower-case letters, digits, '-' and '.'")
    namespace = metadata.text("namespace", "default")
    if not _LABEL.fullmatch(namespace):
        metadata.problem(
            "namespace", f"{namespace[:64]!r} is not a valid name", "use lower-case letters, digits and '-'"
        )
    annotations = metadata.mapping("annotations")
    for known in METADATA:
        metadata.read(known)
    metadata.finish()
    return namespace, name, annotations or ObjectReader({}, ("metadata", "annotations"), reader.problems)


def _kafka_channel(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> KafkaChannel:
    spec = reader.mapping("spec") or ObjectReader({}, ("spec",), reader.problems)
    partitions = spec.integer("numPartitions", 1, 1)
    if partitions > PARTITIONS_MAX:
        spec.problem("numPartitions", f"is {partitions}", f"write at most {PARTITIONS_MAX}")
    replication = spec.integer("replicationFactor", 1, 1)
    if replication > 32_767:
        spec.problem("replicationFactor", f"is {replication}", "write at most the number of brokers")
    channel = KafkaChannel(
        namespace=namespace,
        name=name,
        partitions=partitions,
        replication=replication,
        retention_s=spec.duration_s("retentionDuration", RETENTION_S, positive=True),
        delivery=_delivery(spec),
        subscribers=tuple(_subscriber(entry) for entry in spec.mappings("subscribers")),
        hosts=_hosts(annotations),
        keep_topic=annotations.choice(KEEP_TOPIC, ("true", "false"), "false") == "true",
    )
    uids = [entry.uid for entry in channel.subscribers]
    if len(uids) != len(set(uids)):
        spec.problem("subscribers", "two entries have the same uid", "give each its own uid")
    spec.finish()
    return channel


def _subscriber(entry: ObjectReader) -> Subscriber:
    uid = entry.text("uid", required=True)
    if uid and not _UID.fullmatch(uid):
        entry.problem("uid", f"{uid[:64]!r} is not a valid uid", "use letters, digits, '.', '_' and '-'")
    certs, reply_certs = entry.text("subscriberCACerts"), entry.text("replyCACerts")
    reply = _bare_uri(entry, "replyUri", reply_certs, required=False)
    subscriber = Subscriber(
        uid=uid,
        name=entry.text("name", uid),
        generation=entry.integer("generation", 1, 0),
        subscriber=_bare_uri(entry, "subscriberUri", certs, required=True),
        reply=reply if reply.uri else None,
        delivery=_delivery(entry),
    )
    for key in ("subscriberAudience", "replyAudience", "auth"):
        if entry.read(key) is not None:
            entry.problem(key, "sender identity (OIDC) is not supported yet", "remove the field")
    entry.finish()
    return subscriber


def _bare_uri(entry: ObjectReader, key: str, ca_certs: str, *, required: bool) -> Destination:
    uri = entry.text(key, required=required)
    wrong = uri_problem(uri) if uri else None
    if wrong:
        entry.problem(key, *wrong)
    return Destination(uri=uri, ca_certs=ca_certs)


def _subscription(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Subscription:
    spec = reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), [])
    subscription = Subscription(
        namespace=namespace,
        name=name,
        channel=_channel_ref(spec, namespace),
        subscriber=read_destination(spec, "subscriber", required=True) or Destination(),
        reply=read_destination(spec, "reply"),
        delivery=_delivery(spec),
        order=DeliveryOrder(annotations.choice(ORDER, tuple(DeliveryOrder), DeliveryOrder.ORDERED)),
        concurrency=_concurrency(annotations),
        start=_start(annotations),
        exhausted=OnRetriesExhausted(
            annotations.choice(EXHAUSTED, tuple(OnRetriesExhausted), OnRetriesExhausted.DEAD_LETTER)
        ),
    )
    spec.finish()
    return subscription


def _channel_ref(spec: ObjectReader, namespace: str) -> str:
    ref = spec.mapping("channel", required=True)
    if ref is None:
        return ""
    group = ref.text("apiVersion", f"{MESSAGING}/v1beta1").partition("/")[0]
    kind = ref.text("kind", "KafkaChannel")
    if (group, kind) != (MESSAGING, "KafkaChannel"):
        ref.problem(
            "kind",
            f"{kind} of {group} cannot have subscriptions",
            f"write kind: KafkaChannel of {MESSAGING}/v1beta1",
        )
    other = ref.text("namespace", namespace)
    if other != namespace:
        ref.problem(
            "namespace",
            f"{other!r} is another namespace",
            "a Subscription and its channel must share one; leave it out",
        )
    name = ref.text("name", required=True)
    ref.finish()
    return name


def _delivery(spec: ObjectReader) -> DeliveryRules | None:
    """The `delivery`, each missing field with its default; None if there is no `delivery` at all."""
    reader = spec.mapping("delivery")
    if reader is None:
        return None
    default = DeliverySpec()
    retry_after_max = reader.text("retryAfterMax")
    rules = DeliveryRules(
        DeliverySpec(
            retry=reader.integer("retry", default.retry, 0),
            backoff_policy=BackoffPolicy(reader.choice("backoffPolicy", tuple(BackoffPolicy), default.backoff_policy)),
            backoff_delay_s=reader.duration_s("backoffDelay", default.backoff_delay_s),
            timeout_s=reader.duration_s("timeout", default.timeout_s, positive=True),
            retry_after_max_s=reader.duration_s("retryAfterMax", 0.0) if retry_after_max else None,
        ),
        dead_letter_sink=read_destination(reader, "deadLetterSink"),
    )
    if reader.choice("format", ("binary", "json"), "binary") == "json":
        reader.problem("format", "structured delivery (json) is not supported yet", "remove the field, or write binary")
    reader.finish()
    return rules


def _concurrency(annotations: ObjectReader) -> int:
    text = annotations.text(CONCURRENCY, "100")
    if text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= CONCURRENCY_MAX:
        return int(text)
    annotations.problem(
        CONCURRENCY, f"{text[:64]!r} is not a valid number of requests", f'write "1" to "{CONCURRENCY_MAX}"'
    )
    return 100


def _start(annotations: ObjectReader) -> Start:
    text = annotations.text(START, Start.LATEST)
    if text in tuple(Start):
        return Start(text)
    if re.match(r"\d{4}-\d\d-\d\d", text):
        annotations.problem(START, "start by time is not supported yet", "write earliest or latest")
    else:
        annotations.problem(START, f"{text[:64]!r} is not a valid start", "write earliest or latest")
    return Start.LATEST


def _hosts(annotations: ObjectReader) -> tuple[str, ...]:
    hosts = tuple(dict.fromkeys(host.strip().lower() for host in annotations.text(HOSTS).split(",") if host.strip()))
    for host in hosts:
        if not _HOST.fullmatch(host):
            annotations.problem(
                HOSTS, f"{host[:64]!r} is not a valid host name", "separate names by commas, without port or path"
            )
    if len(hosts) > HOSTS_MAX:
        annotations.problem(HOSTS, f"has {len(hosts)} hosts", f"write at most {HOSTS_MAX}")
    return hosts


#: (API group, kind) -> (served versions, the preferred one first; reader of the object)
KINDS: dict[tuple[str, str], tuple[tuple[str, ...], Callable[[ObjectReader, str, str, ObjectReader], Resource]]] = {
    (MESSAGING, "KafkaChannel"): (("v1beta1", "v1"), _kafka_channel),
    (MESSAGING, "Subscription"): (("v1", "v1beta1"), _subscription),
}
