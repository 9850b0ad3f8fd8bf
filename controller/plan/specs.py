"""One form for what owns a topic, and one for what reads it, whichever kind people wrote.

    KafkaChannel, Broker with its ConfigMap  -> ChannelSpec          the topic's names, size, hosts, delivery
    Subscription, Trigger of a Broker        -> SubscriptionSpec     where its events go, and which

Everything after this works on these two: there is one reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.config import ControllerConfig
from controller.model import Key
from controller.plan.actions import AnyObject, ClusterView, Configs
from knative.contract import kafka_names
from knative.contract.broker_secrets import SecretProblem, is_reference
from knative.contract.records import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER, Channel
from knative.delivery.policy import DeliveryOrder, OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS, Filter
from knative.resources.brokers import (
    BROKER_CLASS,
    EXTERNAL_TOPIC,
    KAFKA_CLASS,
    PARTITIONS_KEY,
    REPLICATION_KEY,
    SECRET_KEY,
    BrokerConfig,
    broker_config,
    secret_of,
)
from knative.resources.conditions import Condition, false, unknown
from knative.resources.destination import Destination
from knative.resources.values import (
    CONCURRENCY,
    RETENTION_S,
    Broker,
    ConfigMap,
    DeliveryRules,
    KafkaChannel,
    Start,
    StartPosition,
    Subscriber,
    Subscription,
    Trigger,
)
from tables.resource_status import SECRET_READY

ConfigMaps = Mapping[tuple[str, str], ConfigMap]  #: by (namespace, name)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """What owns a topic."""

    kind: str
    namespace: str
    name: str
    topic: str  #: its topic as long as none is published: the template's, or the external one
    partitions: int
    replication: int
    retention_s: float
    delivery: DeliveryRules | None = None
    subscribers: tuple[Subscriber, ...] = ()
    ghosts: tuple[Subscriber, ...] = ()
    hosts: tuple[str, ...] = ()
    keep_topic: bool = False
    external: bool = False  #: the topic is not ours: it is never created, changed or deleted
    topic_configs: Configs = ()  #: further configs of the topic
    config_map: str = ""  #: `namespace/name` of its ConfigMap
    problem: Condition | None = None  #: why it cannot be served or changed now
    note: str = ""  #: what people should know about its configuration
    secret: str = ""  #: `namespace/name` of its own Secret for Kafka
    secret_problem: Condition | None = None  #: why that is not, or cannot be, the one that its ConfigMap names

    @property
    def key(self) -> Key:
        """(kind, namespace, name)."""
        return self.kind, self.namespace, self.name

    @property
    def partitions_field(self) -> str:
        """What sets the number of partitions; for messages."""
        return self._field("spec.numPartitions", PARTITIONS_KEY)

    @property
    def replication_field(self) -> str:
        """What sets the replication factor; for messages."""
        return self._field("spec.replicationFactor", REPLICATION_KEY)

    def _field(self, of_channel: str, of_config_map: str) -> str:
        if self.kind == CHANNEL:
            return of_channel
        return (
            f"{of_config_map} of {f'ConfigMap {self.config_map}' if self.config_map else 'a Broker without ConfigMap'}"
        )


@dataclass(frozen=True, slots=True)
class SubscriptionSpec:
    """What reads a topic."""

    kind: str
    namespace: str
    name: str
    channel: str
    subscriber: Destination
    reply: Destination | None = None
    delivery: DeliveryRules | None = None
    order: DeliveryOrder = DeliveryOrder.ORDERED
    concurrency: int = CONCURRENCY
    start: StartPosition = Start.LATEST
    exhausted: OnRetriesExhausted = OnRetriesExhausted.DEAD_LETTER
    filter: Filter = ALL_EVENTS
    own: tuple[str, ...] = ()  #: which of `order` and `concurrency` it has itself, by annotations
    inherited: tuple[str, ...] = ()  #: which of them its broker gives it
    dependency: str = ""  #: an object that a Trigger depends on, as messages name it

    @property
    def channel_key(self) -> Key:
        """The key of the channel or broker that it reads."""
        return (BROKER if self.kind == TRIGGER else CHANNEL), self.namespace, self.channel

    @property
    def channel_noun(self) -> str:
        """What messages call the channel or broker."""
        return "broker" if self.kind == TRIGGER else "channel"

    @property
    def channel_field(self) -> str:
        """The field that names it."""
        return "spec.broker" if self.kind == TRIGGER else "spec.channel.name"


def of_channel(channel: KafkaChannel, config: ControllerConfig) -> ChannelSpec:
    """Returns the spec of a KafkaChannel."""
    return ChannelSpec(
        kind=CHANNEL,
        namespace=channel.namespace,
        name=channel.name,
        topic=kafka_names.channel_topic(config.topic_template, channel.namespace, channel.name),
        partitions=channel.partitions,
        replication=channel.replication,
        retention_s=channel.retention_s,
        delivery=channel.delivery,
        subscribers=channel.subscribers,
        ghosts=channel.ghosts,
        hosts=channel.hosts,
        keep_topic=channel.keep_topic,
    )


def of_broker(
    broker: Broker,
    config_maps: ConfigMaps,
    config: ControllerConfig,
    published: Channel | None,
    secrets: Mapping[str, SecretProblem],
    cluster: ClusterView | None = None,
) -> ChannelSpec:
    """Returns the spec of a Broker of class Kafka. It has a `problem` if its ConfigMap is missing or wrong, or if it
    differs from the `published` record in something that cannot be changed. `secrets`: those that cannot be used."""
    settings, problem = _broker_config(broker, config_maps, cluster)
    changed = _changed(broker, published)
    if changed:
        problem = _immutable(changed, "Broker")
    secret, secret_problem = _secret(broker, settings, config, published, secrets)
    servers = str(config.kafka.get("bootstrap.servers", ""))
    notes = []
    if settings.bootstrap_servers and settings.bootstrap_servers != servers:
        notes.append(
            "bootstrap.servers in its ConfigMap has no effect: all Brokers use the Kafka of this installation "
            f"({servers})"
        )
    if settings.secret and config.kafka_secrets is None:
        notes.append(
            f"{SECRET_KEY} in its ConfigMap has no effect, because PENSTOCK_KAFKA_SECRETS is not set: events are "
            "written "
            "and read with the credentials of the installation"
        )
    return ChannelSpec(
        kind=BROKER,
        namespace=broker.namespace,
        name=broker.name,
        topic=broker.external_topic or kafka_names.channel_topic(config.broker_template, broker.namespace, broker.name),
        partitions=settings.partitions,
        replication=settings.replication,
        retention_s=RETENTION_S,
        delivery=broker.delivery,
        hosts=broker.hosts,
        keep_topic=broker.keep_topic,
        external=bool(broker.external_topic),
        topic_configs=settings.topic_configs,
        config_map="/".join(broker.config or ()),
        problem=problem,
        note="; ".join(notes),
        secret=secret,
        secret_problem=secret_problem,
    )


def secrets_of(objects: Iterable[AnyObject]) -> set[str]:
    """Returns the Secrets that ConfigMaps name."""
    named = [secret_of(object_.resource) for object_ in objects if isinstance(object_.resource, ConfigMap)]
    return {secret for secret in named if secret}


def _secret(
    broker: Broker,
    settings: BrokerConfig,
    config: ControllerConfig,
    published: Channel | None,
    secrets: Mapping[str, SecretProblem],
) -> tuple[str, Condition | None]:
    """Returns the Secret to use. A published Broker keeps the one that it has while the next cannot be used."""
    if broker.config is None or not settings.secret or config.kafka_secrets is None:
        return "", None
    secret, why = settings.secret, secrets.get(settings.secret)
    if why is None:
        return secret, None
    if published is None or published.secret == secret:
        return secret, false(SECRET_READY, why.reason, why.message)
    former = f"the Secret {published.secret}" if published.secret else "the installation's Secret"
    return published.secret, false(SECRET_READY, why.reason, f"{why.message}; {former} is used until then")


def _broker_config(
    broker: Broker, config_maps: ConfigMaps, cluster: ClusterView | None
) -> tuple[BrokerConfig, Condition | None]:
    if broker.config is None:
        return BrokerConfig(), None
    config_map = config_maps.get(broker.config)
    label = "/".join(broker.config)
    if config_map is None:
        return BrokerConfig(), _no_config_map(broker.config[0], label, cluster)
    try:
        settings = broker_config(config_map)
        if settings.secret and not is_reference(settings.secret):
            name = settings.secret.partition("/")[2]
            raise ValueError(f"{SECRET_KEY} is {name[:64]!r}; write the name of a Secret of the same namespace")
        if settings.secret and broker.external_topic and config_map.namespace != broker.namespace:
            raise ValueError(
                f"{SECRET_KEY} names a Secret of another namespace, which cannot be used for an external topic; use a "
                f"ConfigMap of the namespace {broker.namespace}"
            )
    except ValueError as problem:
        return BrokerConfig(), false("TopicReady", "ConfigMapInvalid", f"ConfigMap {label}: {problem}")
    return settings, None


def _no_config_map(namespace: str, label: str, cluster: ClusterView | None) -> Condition:
    if cluster is not None and (why := cluster.why_refused("v1", "ConfigMap", namespace)):
        return false("TopicReady", "ConfigMapForbidden", f"ConfigMap {label} cannot be read: {why}")
    if cluster is not None and ("v1", "ConfigMap") in cluster.loading:
        message = f"waiting until the API server has listed the ConfigMap {label}"
        return unknown("TopicReady", "ConfigMapNotRead", message)
    message = f"there is no ConfigMap {label}; create it, or correct spec.config"
    return false("TopicReady", "ConfigMapNotFound", message)


def _changed(broker: Broker, published: Channel | None) -> str | None:
    if published is None:
        return None
    if broker.class_ != KAFKA_CLASS:
        return f"the annotation {BROKER_CLASS} (was {KAFKA_CLASS}, is {broker.class_ or 'missing'})"
    if published.config_map != "/".join(broker.config or ()):
        return f"spec.config (was {published.config_map or 'missing'})"
    if published.external != bool(broker.external_topic) or broker.external_topic not in ("", published.topic):
        return f"the annotation {EXTERNAL_TOPIC} (the topic is {published.topic})"
    return None


def _immutable(changed: str, kind: str) -> Condition:
    message = f"{changed} cannot be changed; undo the change, or create another {kind}"
    return false("TopicReady", "Immutable", message)


def of_subscription(subscription: Subscription) -> SubscriptionSpec:
    """Returns the spec of a Subscription."""
    return SubscriptionSpec(
        kind=SUBSCRIPTION,
        namespace=subscription.namespace,
        name=subscription.name,
        channel=subscription.channel,
        subscriber=subscription.subscriber,
        reply=subscription.reply,
        delivery=subscription.delivery,
        order=subscription.order or DeliveryOrder.ORDERED,
        concurrency=subscription.concurrency or CONCURRENCY,
        own=_annotated(subscription),
        start=subscription.start,
        exhausted=subscription.exhausted,
    )


def of_trigger(trigger: Trigger, broker: Broker | None) -> SubscriptionSpec:
    """Returns the spec of a Trigger. `broker`: for what the Trigger leaves open; None = there is none yet."""
    return SubscriptionSpec(
        kind=TRIGGER,
        namespace=trigger.namespace,
        name=trigger.name,
        channel=trigger.broker,
        subscriber=trigger.subscriber,
        delivery=trigger.delivery,
        order=trigger.order or (broker and broker.order) or DeliveryOrder.KEY_ORDERED,
        concurrency=trigger.concurrency or (broker and broker.concurrency) or CONCURRENCY,
        own=(own := _annotated(trigger)),
        inherited=tuple(name for name in _annotated(broker) if name not in own),
        start=trigger.start,
        exhausted=trigger.exhausted,
        filter=trigger.filter,
        dependency=trigger.dependency,
    )


def _annotated(resource: Subscription | Trigger | Broker | None) -> tuple[str, ...]:
    given = {} if resource is None else {"order": resource.order, "concurrency": resource.concurrency}
    return tuple(name for name, value in given.items() if value is not None)
