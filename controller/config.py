"""What the controller is told: one frozen value, made by the composition root. Refuses to read the environment."""

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
    """Limits have their unit in the name; `kafka` holds librdkafka client settings, `bootstrap.servers` among them."""

    kafka: Mapping[str, Any]
    resources_dir: Path
    state_dir: Path
    instance: str = "penstock"
    topic_template: str = kafka_names.CHANNEL_TOPIC_TEMPLATE
    cluster_domain: str = "cluster.local"
    ingress_url: str = ""  #: http://host:port where events are taken in; "" = by the names that a cluster has
    event_bytes_max: int = MIB
    #: of a subscription when neither it nor its channel has a `delivery`
    default_delivery: DeliverySpec = field(default_factory=lambda: DeliverySpec(retry=10))
    internal_replication: int = 1  #: of the contract and status topics
    dlq_retention_s: float = 30 * 86_400.0
    poll_s: float = 0.5  #: how often the directory is looked at
    resync_s: float = 30.0  #: everything is observed anew at least so often
    debounce_s: float = 0.1  #: changes that come together are handled together
    status_tick_s: float = 2.0  #: readiness ends with time too, not only with news
    admin_timeout_s: float = 15.0  #: of one call to Kafka
    publish_timeout_s: float = 15.0  #: of storing one contract record and reading it back
    backoff_max_s: float = 30.0  #: between tries while something fails
    removal_poll_s: float = 1.0  #: how often a group is looked at that has to become empty
    group_wait_s: float = 30.0  #: how long a topic's deletion waits for the groups of its subscriptions
    removal_limit_s: float = 3600.0  #: after that a removal that does not succeed is given up, loudly
    session_timeout_s: float = 10.0  #: of the lock group
    stop_timeout_s: float = 3.0  #: for the step under way, and again for leaving the lock group

    @property
    def contract_topic(self) -> str:
        """The topic that the contract is published to."""
        return kafka_names.contract_topic(self.instance)
