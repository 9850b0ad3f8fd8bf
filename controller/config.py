"""The controller's configuration: one frozen value, made by the composition root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knative.contract import kafka_names
from knative.delivery.policy import DeliverySpec

MIB = 1024 * 1024
KIB = 1024


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Limits have their unit in the name. `kafka` holds librdkafka client settings with `bootstrap.servers`."""

    kafka: Mapping[str, Any]
    resources_dir: Path  #: unless the resources come from a cluster
    state_dir: Path
    kafka_secrets: Path | None = None  #: the folder with the Secrets of Brokers; None = they are not used
    instance: str = "penstock"
    topic_template: str = kafka_names.CHANNEL_TOPIC_TEMPLATE
    broker_template: str = kafka_names.BROKER_TOPIC_TEMPLATE
    cluster_domain: str = "cluster.local"
    ingress_url: str = ""  #: http://host:port of ingress; "" = channels have only cluster host names
    channel_services: str = ""  #: host that the Services of channels lead to, in a cluster; "" = there are none
    traffic: bool = False  #: workers report the types of events, for EventTypes
    event_bytes_max: int = MIB
    #: of a subscription when neither it nor its channel has a `delivery`
    default_delivery: DeliverySpec = field(default_factory=lambda: DeliverySpec(retry=10))
    internal_replication: int = 1  #: of the contract and status topics
    dlq_retention_s: float = 30 * 86_400.0
    poll_s: float = 0.5  #: how often the directory is scanned
    resync_s: float = 30.0  #: Kafka is observed again at least this often
    debounce_s: float = 0.1  #: changes within this time are handled together
    status_tick_s: float = 2.0  #: how often statuses are updated without a change: workers' records expire
    admin_timeout_s: float = 15.0  #: of one call to Kafka
    publish_timeout_s: float = 15.0  #: of storing one contract record and reading it back
    backoff_max_s: float = 30.0  #: longest pause between tries while something fails
    removal_poll_s: float = 1.0  #: how often a group is checked that must become empty
    group_wait_s: float = 30.0  #: how long a topic's deletion waits for the groups of its subscriptions
    #: after this time a removal is given up and logged as an error, and a creation of an object that has vanished
    removal_limit_s: float = 3600.0
    seek_limit_s: float = 120.0  #: until a seek gives up when workers do not stop, or Kafka refuses the new offsets
    seek_ref_s: float = 30.0  #: how long after its creation a ResetOffset in a cluster waits for what it refers to
    seek_kept_s: float = 600.0  #: how long the outcome of a seek stays that a command has asked for
    silent_s: float = 11.0  #: a worker whose record has not changed for this long is gone; longer than its session
    session_timeout_s: float = 10.0  #: of the lock group
    namespaces: tuple[str, ...] = ()  #: of a cluster; () = all
    kubeconfig: str = ""  #: "" = the one of kubectl, or the pod's ServiceAccount
    context: str = ""  #: of the kubeconfig; "" = its current one
    version: str = ""  #: of Penstock, for the controller's report
    subscriptions: str = "auto"  #: core, own or auto: who resolves Subscriptions in a cluster
    stop_timeout_s: float = 3.0  #: for the current step, and again for leaving the lock group

    @property
    def contract_topic(self) -> str:
        """The topic that the contract is published to."""
        return kafka_names.contract_topic(self.instance)
